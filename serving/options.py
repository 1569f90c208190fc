"""Options of predictions, exports and the server."""

import dataclasses
import re

from common import encodings, files
from common.checks import (
    distinct_folders,
    follows,
    plain_name,
    require,
    weights,
)
from common.heads import TEXT_POOLINGS
from common.settings import FOLDER, REQUIRED, VOCABULARY, check, setting
from common.vocabularies.text_settings import TextChoice
from common.weights.weights_line import choice_setting
from serving.generation.options import max_chars_setting
from training.run_options import EXPORT_PRECISIONS

# Tasks of exports that no fine-tuning makes.
EMBEDDING = "embedding"
LANGUAGE_MODEL = ("lm", "pretraining")
# How two vectors are compared; distances count below 0.
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@dataclasses.dataclass(frozen=True)
class PredictOptions:
    """Batch prediction."""

    saved_model_dir: str = setting(
        REQUIRED,
        "Exported version folder, or its parent (the newest is taken).",
    )
    text: tuple[str, ...] = setting(
        (),
        "Text to predict; may be given again. A model of several texts "
        "takes them divided by tabs.",
        repeated=True,
    )
    input_file: str = setting(
        "",
        "Rows to predict: .csv, .tsv or .jsonl with the columns of "
        "training, .conll of a tagger, SQuAD's .json of a span model, else "
        "one row per line with tabs between texts; plain, .gz or .xz.",
    )
    output_file: str = setting(
        "",
        "JSONL with one answer per row, in input order; standard output if "
        "not given. An interrupted run resumes where it stopped.",
    )
    batch_size: int = setting(
        32,
        "Rows per call of the model.",
        bounds=">= 1",
        flag="predict_batch_size",
    )
    max_chars: int = max_chars_setting()
    skip_bad_rows: bool = setting(
        False, 'Answer bad rows with {"error": ...} instead of stopping there.'
    )
    text_columns: tuple[str, ...] = setting(
        (),
        "Columns of the texts in order, names or numbers from 0; default: "
        "those of training.",
    )
    label_column: str = setting(
        "", "Column of the true label, which the answers then repeat."
    )
    key_column: str = setting(
        "",
        "Column that names the rows in the answers; default: id, guid, key,"
        " index, idx or uid, else rows are numbered from 0.",
    )
    has_header: bool | None = setting(
        None,
        "Whether the first row of .csv and .tsv holds names; default: where"
        " it holds those of the texts.",
    )
    trust_model: bool = setting(
        False,
        "Run a SavedModel whose graph holds operations on files or Python; "
        "it can do whatever you can.",
    )

    def __post_init__(self) -> None:
        check(self)
        require(
            bool(self.text) != bool(self.input_file),
            "give one of --text and --input_file",
        )
        for name in ("input_file", "output_file"):
            path = getattr(self, name)
            require(
                not files.is_remote(path),
                f"--{name}={path}: wanted a file of this machine, where a "
                "stopped run can go on, found one of another place; copy it",
            )
        plain_name(self.output_file)
        require(
            not self.output_file.lower().endswith(encodings.TABLES),
            f"--output_file={self.output_file} holds a JSON object per line, "
            "no table: give a name that ends in .jsonl",
        )


@dataclasses.dataclass(frozen=True)
class EnsembleOptions:
    """SavedModels that answer together."""

    rows: PredictOptions  # what is answered, and where answers go
    ensemble: tuple[str, ...] = setting(
        REQUIRED,
        "Exported version folders, or their parents, of the same task.",
    )
    ensemble_weights: tuple[float, ...] = setting(
        (), "A positive number for each of --ensemble; default: all alike."
    )

    def __post_init__(self) -> None:
        require(self.ensemble, "--ensemble is empty: give exported folders")
        distinct_folders(self, "ensemble")
        weights(self, "ensemble_weights", len(self.ensemble), "folder")


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Export of a model directory."""

    model_dir: str = setting(
        REQUIRED,
        "Directory of a fine-tuning or pretraining run.",
        released=FOLDER,
    )
    task: str = setting(
        "",
        "lm for a pretraining run, embedding for vectors of texts; else not "
        "needed, and checked when given.",
    )
    checkpoint: str = setting(
        "",
        "Weights to export; those of --model_dir if not given.",
        released=FOLDER,
    )
    checkpoint_choice: str = choice_setting()
    spiece_model_file: str = setting(
        "",
        "Vocabulary (spiece.model, tokenizer.json, ...); the one in "
        "--model_dir if not given.",
        released=VOCABULARY,
    )
    output_dir: str = setting(
        "", "Parent of the version folders; MODEL_DIR/export if not given."
    )
    max_seq_length: int = setting(
        0, "Longest input in tokens; 0 = as trained (lm: 512).", bounds=">= 0"
    )
    num_texts: int = setting(
        0,
        "Texts of a row of a classifier that another program fine-tuned: 2 for "
        "pairs; 0 = one, or as trained here.",
        bounds=">= 0",
    )
    model_name: str = setting(
        "xlnet", "Name in the warm-up requests, TF-Serving's --model_name."
    )
    # what is said about text handling; records rule
    text: TextChoice | None = None
    check: bool = setting(
        True, "Load the result in a fresh process and compare its answers."
    )
    precision: str = setting(
        "float32",
        "mixed_bfloat16: half the size; products are computed in bfloat16.",
        choices=EXPORT_PRECISIONS,
    )
    pooling: str = setting(
        "",
        "--task=embedding: how the vectors of a text's tokens become one; if "
        "not given as a sentence-transformers folder says.",
        choices=("", *TEXT_POOLINGS),
    )

    def __post_init__(self) -> None:
        check(self)
        follows(self.pooling, "pooling", "task", (EMBEDDING,), self.task)
        require(
            self.task not in (EMBEDDING, *LANGUAGE_MODEL) or not self.num_texts,
            f"--num_texts={self.num_texts} is for classifiers: leave it out",
        )
        require(
            self.task not in LANGUAGE_MODEL or self.precision == "float32",
            "--precision is for fine-tuned models: leave it out, a language "
            "model is exported in float32",
        )


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How the local server takes requests."""

    model_name: str = setting(
        "", "NAME of /v1/models/NAME. Default: the encoder's, such as bert."
    )
    version_labels: tuple[str, ...] = setting(
        (), "Labels of the served version: /v1/models/NAME/labels/LABEL."
    )
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Names that callers may use for the server (the Host header) beside"
        " addresses in numbers; * = any. Default: this machine's loopback "
        "names and, unless --host is one of them, its host name.",
    )
    api_keys_file: str = setting(
        "",
        "Callers need one of these keys: a file of lines NAME sha256:HEX, "
        "read again when it changes. Default: no key is needed.",
    )
    ssl_certfile: str = setting(
        "",
        "PEM file of the certificate and those above it; the server then "
        "answers over HTTPS alone.",
    )
    ssl_keyfile: str = setting(
        "",
        "PEM file of the certificate's private key, not encrypted. Default:"
        " it stands in --ssl_certfile.",
    )
    max_body_bytes: int = setting(
        1000000, "Largest request body.", bounds=">= 1"
    )
    max_chars: int = max_chars_setting()
    max_instances: int = setting(64, "Rows of one request.", bounds=">= 1")
    max_numbers: int = 1_000_000  # numbers of one row's array
    max_tokens: int = setting(
        0,
        "Rows x length that run together, memory slots included; a longer "
        "row is answered with status 400. 0 = by the model's size and the "
        "free memory.",
        bounds=">= 0",
    )
    max_cost: int = setting(
        262144,
        "Tokens that one request may take through the model in all (rows x "
        "length, times the masks or the passages); more: status 400.",
        bounds=">= 1",
    )
    max_batch_size: int = setting(32, "Rows that run together.", bounds=">= 1")
    max_wait_ms: float = setting(
        2.0,
        "How long a first row waits for others to share its batch.",
        bounds=">= 0",
    )
    max_queue: int = setting(
        1024,
        "Rows that may wait; more are answered with status 503.",
        bounds=">= 1",
    )
    max_connections: int = setting(
        1000,
        "Connections at a time; one more takes the place of one that waits "
        "for its client, or is closed.",
        bounds=">= 1",
    )
    max_connections_per_address: int = setting(
        500,
        "Of these, connections of one address; all users of a proxy have "
        "its address.",
        bounds=">= 1",
    )
    max_requests_per_address: float = setting(
        1000.0,
        "Requests of one address in a second, of whatever kind; one more is "
        "answered with status 429. 0 = any number.",
        bounds=">= 0",
    )
    timeout_s: float = setting(
        30.0,
        "Longest wait for an answer in seconds, then status 504; SIGTERM "
        "ends the server within this time.",
        bounds="> 0",
    )
    read_timeout_s: float = setting(
        30.0,
        "Longest time in seconds that a client may take to send a request "
        "or to be silent between two.",
        bounds="> 0",
    )
    trust_model: bool = setting(
        False,
        "Serve a SavedModel whose graph holds operations on files or "
        "Python; it can do whatever you can.",
    )
    poll_s: float = setting(
        0.0,
        "Seconds between two looks for a newer version below "
        "--saved_model_dir, which is then served; 0 = never.",
        bounds=">= 0",
    )

    def __post_init__(self) -> None:
        check(self)
        require(
            self.ssl_certfile or not self.ssl_keyfile,
            "--ssl_keyfile is the key of a certificate: give --ssl_certfile",
        )
        if self.model_name:
            check_model_name(self.model_name, "--model_name")


def check_model_name(name: str, source: str) -> None:
    """Raises UserError unless `name` can be NAME of `/v1/models/NAME`."""
    require(
        re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name),
        f"{source}: wanted 1 to 100 letters (a-z), digits, . _ or -, found "
        f"{name[:40]!r}; give --model_name",
    )
