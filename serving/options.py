"""Options of the serving commands (L0)."""

import dataclasses
import re

from common.checks import distinct, one_of, require, weights, within
from common.text_settings import TextChoice
from common.weights_line import AUTO, CHECKPOINT_CHOICES
from training.options import EXPORT_PRECISIONS


@dataclasses.dataclass(frozen=True)
class PredictOptions:
    """Batch prediction.

    Attributes:
      saved_model_dir: exported version folder, or its parent.
      text: texts given on the command line.
      input_file: CSV, TSV, JSONL or one text per line (plain, .gz or .xz).
      output_file: JSONL; empty = standard output.
      batch_size: rows per call.
      max_chars: longest text.
      skip_bad_rows: answer bad rows with {"error": ...} and go on.
      text_columns: columns of the texts, names or numbers from 0; empty = as
        in training.
      label_column, key_column: of the true label and of the row's key; empty =
        as in training, or by their usual names.
      has_header: the first row of CSV and TSV holds names; None = where it
        holds those of the texts.
      trust_model: run a graph with operations on files or Python.
    """

    saved_model_dir: str
    text: tuple[str, ...] = ()
    input_file: str = ""
    output_file: str = ""
    batch_size: int = 32
    max_chars: int = 50_000
    skip_bad_rows: bool = False
    text_columns: tuple[str, ...] = ()
    label_column: str = ""
    key_column: str = ""
    has_header: bool | None = None
    trust_model: bool = False

    def __post_init__(self) -> None:
        within(self, ">= 1", "batch_size", "max_chars")
        require(
            bool(self.text) != bool(self.input_file),
            "give one of --text and --input_file",
        )


@dataclasses.dataclass(frozen=True)
class EnsembleOptions:
    """SavedModels that answer together.

    Attributes:
      rows: what is answered, and where answers go.
      ensemble: exported version folders, or their parents.
      ensemble_weights: one per folder; empty = all alike.
    """

    rows: PredictOptions
    ensemble: tuple[str, ...]
    ensemble_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require(self.ensemble, "--ensemble is empty: give exported folders")
        distinct(self, "ensemble", "a folder")
        weights(self, "ensemble_weights", len(self.ensemble), "folder")


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Export of a model directory.

    Attributes:
      model_dir: of a fine-tuning or pretraining run.
      task: head or task name; empty = as in `task.json`.
      checkpoint: other weights than the directory's; empty = its own.
      checkpoint_choice: which of a directory's, one of
        `common.weights_line.CHECKPOINT_CHOICES`.
      spiece_model_file: empty = the directory's copy.
      output_dir: parent of the version folders; empty = MODEL_DIR/export.
      max_seq_length: 0 = as in `task.json`.
      model_name: in the warm-up requests.
      text: what is said about text handling; records rule.
      check: reload and compare.
      precision: of weights and products, one of `EXPORT_PRECISIONS`.
    """

    model_dir: str
    task: str = ""
    checkpoint: str = ""
    checkpoint_choice: str = AUTO
    spiece_model_file: str = ""
    output_dir: str = ""
    max_seq_length: int = 0
    model_name: str = "xlnet"
    text: TextChoice | None = None
    check: bool = True
    precision: str = "float32"

    def __post_init__(self) -> None:
        within(self, ">= 0", "max_seq_length")
        one_of(
            self,
            precision=EXPORT_PRECISIONS,
            checkpoint_choice=CHECKPOINT_CHOICES,
        )


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """A pretrained checkpoint.

    Attributes:
      checkpoint: directory, prefix or `.index`, of any known format.
      spiece_model_file: empty = `spiece.model` beside the checkpoint.
      text: what is said about text handling; records rule.
      checkpoint_choice: where `checkpoint` is a folder, one of
        `common.weights_line.CHECKPOINT_CHOICES`.
    """

    checkpoint: str
    spiece_model_file: str = ""
    text: TextChoice | None = None
    checkpoint_choice: str = AUTO

    def __post_init__(self) -> None:
        one_of(self, checkpoint_choice=CHECKPOINT_CHOICES)


@dataclasses.dataclass(frozen=True)
class SamplingOptions:
    """How new tokens are picked.

    Attributes:
      max_new_tokens: at most so many.
      num_samples: continuations of one prompt.
      temperature: 0 = always the most probable token.
      top_k: only the k most probable; 0 = all.
      top_p: only the most probable with this much probability; 1 = all.
      seed: equal seeds give equal text.
      use_cache: keep keys and values (the results are the same).
    """

    max_new_tokens: int = 100
    num_samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 0.9
    seed: int = 0
    use_cache: bool = True

    def __post_init__(self) -> None:
        within(self, ">= 1", "max_new_tokens", "num_samples")
        within(self, ">= 0", "temperature", "top_k")
        within(self, "(0, 1]", "top_p")
        require(
            -(2**31) <= self.seed < 2**31,
            f"--seed must fit 32 bits, received {self.seed}",
        )


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """`serving.generate` beside `SamplingOptions`.

    Attributes:
      prompt: the text to continue.
      priming_file: UTF-8 text that comes first, closed by `<eod>`.
      max_chars: longest prompt or priming text.
      mem_len: left-to-right models: how many tokens back they look; None = as
        trained.
      stop_lines: left-to-right models: a sample ends after so many lines; 0 =
        never.
      allow_unk: left-to-right models: `<unk>` may be picked.
    """

    prompt: str
    priming_file: str = ""
    max_chars: int = 50_000
    mem_len: int | None = None
    stop_lines: int = 0
    allow_unk: bool = False

    def __post_init__(self) -> None:
        within(self, ">= 1", "max_chars", "mem_len")
        within(self, ">= 0", "stop_lines")


@dataclasses.dataclass(frozen=True)
class FillOptions:
    """`serving.fill_mask`.

    Attributes:
      text: holds `<mask>`.
      fill: texts for the masks, divided by "|"; empty = search.
      order: see `serving.generation.fill.parse_order`.
      beam_size: fillings kept while searching, and given.
      seed: of a random order.
      max_chars: longest text.
      compare_independent: also give each place without the other ones.
      attribution: also give how much each given piece says.
    """

    text: str
    fill: str = ""
    order: str = "left_to_right"
    beam_size: int = 5
    seed: int = 0
    max_chars: int = 50_000
    compare_independent: bool = False
    attribution: bool = False

    def __post_init__(self) -> None:
        within(self, ">= 1", "beam_size", "max_chars")


@dataclasses.dataclass(frozen=True)
class ScoreOptions:
    """`serving.score`.

    Attributes:
      text: the texts.
      order: "left_to_right", "right_to_left", "random" or "all".
      num_orders: random orders per text.
      seed: of the first random order.
      context_chars: so many first characters are given, not scored.
      max_seq_length: T of a segment.
      memory_len: M between segments; None = 384, or as a left-to-right model
        was trained.
      max_chars: longest text.
      per_token: also give the log-probability of each piece.
      score_line_end: a left-to-right model scores the end of a line, too.
    """

    text: tuple[str, ...]
    order: str = "left_to_right"
    num_orders: int = 4
    seed: int = 0
    context_chars: int = 0
    max_seq_length: int = 512
    memory_len: int | None = None
    max_chars: int = 50_000
    per_token: bool = False
    score_line_end: bool = True

    def __post_init__(self) -> None:
        require(self.text, "--text is missing: give the text to score")
        within(self, ">= 1", "num_orders", "max_seq_length", "max_chars")
        within(self, ">= 0", "context_chars", "memory_len")


@dataclasses.dataclass(frozen=True)
class EmbedOptions:
    """`serving.embed`.

    Attributes:
      text: texts of the command line.
      input_file: one text per line.
      output_file: .npz, .jsonl or .csv; empty = JSON lines to the terminal.
      layer: 0 = word embeddings, -1 = the last.
      pooling: "none", "mean", "cls" or "last"; empty = as a
        sentence-transformers folder says, elsewhere "none".
      max_seq_length: T of a segment.
      memory_len: M between segments; 0 = segments do not see each other; None
        = 512 where the encoder has memory.
      embed_batch_size: texts at a time.
      max_chars: longest text.
    """

    text: tuple[str, ...] = ()
    input_file: str = ""
    output_file: str = ""
    layer: int = -1
    pooling: str = ""
    max_seq_length: int = 512
    memory_len: int | None = None
    embed_batch_size: int = 8
    max_chars: int = 1_000_000

    def __post_init__(self) -> None:
        require(
            bool(self.text) != bool(self.input_file),
            "give one of --text and --input_file",
        )
        within(self, ">= 1", "max_seq_length", "embed_batch_size", "max_chars")
        within(self, ">= 0", "memory_len")
        require(
            not self.output_file
            or self.output_file.endswith((".npz", ".jsonl", ".csv")),
            "--output_file must end in .npz, .jsonl or .csv, received "
            f"{self.output_file!r}",
        )


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How the local server takes requests.

    Attributes:
      model_name: NAME of `/v1/models/NAME`; empty = the encoder's.
      version_labels: labels of the version that is served.
      allowed_hosts: names that callers may use for the server; () = any.
      api_keys_file: hashes of keys, one of which a caller needs; empty = all
        may ask.
      ssl_certfile, ssl_keyfile: PEM files for HTTPS; the key may stand in the
        first. Empty = HTTP.
      max_body_bytes: of one request.
      max_chars: of one text.
      max_instances: rows of one request.
      max_numbers: numbers of one row's array.
      max_tokens: rows x length that run together; 0 = from free memory.
      max_cost: tokens of one request through the model, in all its runs.
      max_batch_size: rows that run together.
      max_wait_ms: how long a first row waits for others.
      max_queue: rows that may wait; more are answered 503.
      max_connections: in all.
      max_connections_per_address: of one address.
      max_requests_per_address: of one address in a second; 0 = any number.
      timeout_s: longest wait for an answer, then 504; a server told to end
        is gone by then.
      read_timeout_s: longest time that a client may take to send a request,
        or be silent between two.
      trust_model: run a graph with operations on files or Python.
      poll_s: look for newer versions so often; 0 = never.
    """

    model_name: str = ""
    version_labels: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    api_keys_file: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    max_body_bytes: int = 1_000_000
    max_chars: int = 50_000
    max_instances: int = 64
    max_numbers: int = 1_000_000
    max_tokens: int = 0
    max_cost: int = 262_144
    max_batch_size: int = 32
    max_wait_ms: float = 2.0
    max_queue: int = 1024
    max_connections: int = 1000
    max_connections_per_address: int = 500
    max_requests_per_address: float = 1000.0
    timeout_s: float = 30.0
    read_timeout_s: float = 30.0
    trust_model: bool = False
    poll_s: float = 0.0

    def __post_init__(self) -> None:
        within(
            self,
            ">= 1",
            "max_body_bytes",
            "max_chars",
            "max_instances",
            "max_cost",
            "max_batch_size",
            "max_queue",
            "max_connections",
            "max_connections_per_address",
        )
        within(
            self,
            ">= 0",
            "max_requests_per_address",
            "max_tokens",
            "max_wait_ms",
            "poll_s",
        )
        within(self, "> 0", "timeout_s", "read_timeout_s")
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
