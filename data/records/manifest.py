"""`manifest.json`: the contract between the builder and the reader (L2)."""

import base64
import dataclasses
import functools
import hashlib
import json
import os

import numpy as np

from common import files
from common.errors import UserError
from common.text_settings import TextSettings
from data.records.record_format import RecordFormat
from data.symbols import SymbolIds

FILE_NAME = "manifest.json"
# 2: one capacity of targets for the whole segment (`--sampler=balanced`), blocks
# that span files, their text's SHA-256, tokens per file. 1 is still read.
FORMAT_VERSION = 2
_READ_VERSIONS = (1, 2)


@dataclasses.dataclass(frozen=True)
class RecordFile:
    """One file of records: `lanes` lanes of S segments, one after another.

    `segments` of them have text, the others fill the last lane; `tokens` is the
    number of text tokens in all segments (0 = not known: format 1), B's
    included.
    """

    name: str
    block: int
    split: str
    direction: str
    number: int
    lanes: int
    segments: int
    targets: int
    is_next: int
    bytes: int
    sha256: str
    tokens: int = 0


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a data directory holds.

    Attributes:
      data_dir: where it lies.
      options: the builder's identity (`BuildOptions.identity`).
      spiece_sha256: of the SentencePiece file.
      vocab_size: V.
      symbols: ids of the special symbols.
      word_starts: bool [V], pieces that begin a word.
      versions: of what the bytes depend on.
      segments_per_lane: S per split.
      counts: documents and tokens, per split and left out.
      unigram: `train_entropy`, nats per target token of the train targets'
        own distribution; `dev_cross_entropy` of the dev targets under it,
        None without a dev split.
      files: every record file.
      text_settings: how text was handled, as the vocabulary says; None in
        manifests of before, see `text`.
      batches: files of `--materialize_batches`: name, rows, records, bytes,
        sha256.
      text_sha256: of the text of each block; none in format 1.
      format_version: of the file that was read.
    """

    data_dir: str
    options: dict
    spiece_sha256: str
    vocab_size: int
    symbols: SymbolIds
    word_starts: np.ndarray
    versions: dict
    segments_per_lane: dict
    counts: dict
    unigram: dict
    files: tuple[RecordFile, ...]
    batches: tuple[dict, ...] = ()
    text_settings: dict | None = None
    text_sha256: tuple[str, ...] = ()
    format_version: int = FORMAT_VERSION

    @property
    def text(self) -> TextSettings:
        """How text was handled."""
        if self.text_settings is None:
            return TextSettings.from_flags(
                self.options["uncased"], self.options["keep_accents"]
            )
        path = os.path.join(self.data_dir, FILE_NAME)
        return TextSettings.from_dict(self.text_settings, path)

    @property
    def seq_len(self) -> int:
        """T."""
        return self.options["seq_len"]

    @property
    def reuse_len(self) -> int:
        """Positions of the part that becomes memory."""
        return self.options["reuse_len"]

    @property
    def num_predict(self) -> int:
        """P."""
        return self.options["num_predict"]

    @property
    def perm_size(self) -> int:
        """Positions per permutation; 0 = the whole part."""
        return self.options["perm_size"]

    @property
    def bi_data(self) -> bool:
        """Whether there are backward lanes."""
        return self.options["bi_data"]

    @property
    def uncased(self) -> bool:
        """Whether the text was lower-cased."""
        return self.text.uncased

    @property
    def text_rule(self) -> str:
        """Rule of the text settings."""
        return self.text.rule

    @property
    def pad_id(self) -> int:
        """Id that fills padding."""
        return self.symbols.pad

    @property
    def num_passes(self) -> int:
        """Independent draws that are stored."""
        return self.options["num_passes"]

    @property
    def unigram_entropy(self) -> float:
        """Nats per target token: what a model without context can reach."""
        return self.unigram["train_entropy"]

    @functools.cached_property
    def format(self) -> RecordFormat:
        """Layout of the records."""
        return RecordFormat(
            self.seq_len,
            self.num_predict,
            self.vocab_size,
            self.options["materialize_masks"],
        )

    def select(self, split: str, direction: str, number: int):
        """Files of one split, direction and pass, in block order."""
        return [
            f
            for f in self.files
            if (f.split, f.direction, f.number) == (split, direction, number)
        ]

    def lanes(self, split: str, direction: str = "forward") -> int:
        """Lanes of one epoch."""
        return sum(f.lanes for f in self.select(split, direction, 0))

    def target_rates(self, split: str) -> tuple[float, float | None]:
        """Wanted and found targets per text token.

        The second is None where it is not known: format 1, or no such split.
        """
        wanted = self.options["mask_beta"] / self.options["mask_alpha"]
        found = [f for f in self.files if f.split == split]
        tokens = sum(f.tokens for f in found)
        return wanted, sum(
            f.targets for f in found
        ) / tokens if tokens else None

    def empty_share(self, split: str) -> float:
        """Share of a split's records that are empty, at the ends of lanes."""
        found = [f for f in self.files if f.split == split]
        total = sum(f.lanes for f in found) * self.segments_per_lane[split]
        return 1 - sum(f.segments for f in found) / total if total else 0.0

    def has_dev(self) -> bool:
        """Whether a dev split was held out."""
        return self.lanes("dev") > 0

    def to_json(self) -> dict:
        """What `manifest.json` holds."""
        value = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self)
        }
        del value["data_dir"]
        value["format_version"] = FORMAT_VERSION
        value["symbols"] = dataclasses.asdict(self.symbols)
        packed = np.packbits(self.word_starts).tobytes()
        value["word_starts"] = base64.b64encode(packed).decode()
        value["files"] = [dataclasses.asdict(f) for f in self.files]
        return value | {"checksums": _checksums(value)}

    def write(self) -> None:
        """Writes the file, atomically."""
        path = os.path.join(self.data_dir, FILE_NAME)
        files.write_json(path, self.to_json())

    def require(self, **wanted) -> None:
        """Compares what a user gave with what the data are.

        Args:
          **wanted: manifest properties or option names; None is not compared.

        Raises:
          UserError: all fields that differ, wanted and found.
        """
        wrong = []
        for name, value in wanted.items():
            found = getattr(self, name, self.options.get(name))
            if value is not None and value != found:
                wrong.append(f"{name}: wanted {value}, found {found}")
        if wrong:
            raise UserError(
                f"{os.path.join(self.data_dir, FILE_NAME)} does not fit: "
                f"{'; '.join(wrong)}; leave the flags out to take the "
                "data's values, or build the data again"
            )

    def verify_sizes(self) -> None:
        """Checks that every file is there with its size.

        Raises:
          UserError: the first file that is not.
        """
        sizes = [(f.name, f.bytes) for f in self.files]
        sizes += [(f["name"], f["bytes"]) for f in self.batches]
        for name, wanted in sizes:
            path = os.path.join(self.data_dir, name)
            try:
                size = files.size(path)
            except OSError as e:
                raise UserError(
                    f"{path} is missing, {FILE_NAME} lists it; run the "
                    "builder again in an empty folder"
                ) from e
            if size != wanted:
                raise UserError(
                    f"{path}: wanted {wanted} bytes as in {FILE_NAME}, "
                    f"found {size}; the file is damaged or of another build"
                )


def load_manifest(data_dir: str, verify: bool = True) -> Manifest:
    """Reads and checks the manifest of a data directory.

    Args:
      data_dir: the builder's `--output_dir`.
      verify: also check every file's size.

    Raises:
      UserError: no manifest, another version, a field that is missing or
        wrong, a file that is missing or of another size.
    """
    path = os.path.join(data_dir, FILE_NAME)
    try:
        value = json.loads(files.read_bytes(path))
    except OSError as e:
        raise UserError(
            f"{path} does not exist: no finished data there; build them with "
            "`python -m data.create_pretraining_data`"
        ) from e
    except (ValueError, RecursionError) as e:
        raise UserError(f"{path} is not valid JSON: {e}") from e
    if not isinstance(value, dict):
        raise UserError(
            f"{path}: wanted a JSON object, found {type(value).__name__}; "
            "build the data again"
        )
    version = value.pop("format_version", None)
    if version not in _READ_VERSIONS:
        raise UserError(
            f"{path}: wanted format_version {FORMAT_VERSION}, found {version}; "
            "build the data again"
        )
    value["format_version"] = version
    _check_fields(value, value.pop("checksums", None), path)
    try:
        manifest = _from_json(data_dir, value)
    except (KeyError, TypeError, ValueError) as e:
        raise UserError(
            f"{path}: a field is missing or wrong: {e}; build the data again"
        ) from e
    _check(manifest, path)
    if verify:
        manifest.verify_sizes()
    return manifest


def _checksums(value: dict) -> dict[str, str]:
    """A short checksum of every field; of `options`, of each option."""
    flat = {k: v for k, v in value.items() if k != "options"}
    options = value.get("options")
    if isinstance(options, dict):
        flat |= {f"options.{k}": v for k, v in options.items()}
    return {
        k: hashlib.sha256(json.dumps(v, sort_keys=True).encode()).hexdigest()[
            :12
        ]
        for k, v in flat.items()
    }


def _check_fields(value: dict, wanted, path: str) -> None:
    """Names the field that was changed after the build."""
    found = _checksums(value)
    wanted = wanted if isinstance(wanted, dict) else {}
    wrong = sorted(
        k for k in found.keys() | wanted.keys() if found.get(k) != wanted.get(k)
    )
    if wrong:
        raise UserError(
            f"{path}: the field {wrong[0]} is not as it was written (its "
            "checksum differs); build the data again or restore the file"
        )


def _from_json(data_dir: str, value: dict) -> Manifest:
    packed = np.frombuffer(base64.b64decode(value["word_starts"]), np.uint8)
    value["word_starts"] = np.unpackbits(packed)[: value["vocab_size"]] == 1
    value["symbols"] = SymbolIds(**value["symbols"])
    value["files"] = tuple(RecordFile(**f) for f in value["files"])
    value["batches"] = tuple(value["batches"])
    value["text_sha256"] = tuple(value.get("text_sha256", ()))
    return Manifest(data_dir=data_dir, **value)


def _check(manifest: Manifest, path: str) -> None:
    """The manifest's own sums and ranges."""
    if len(manifest.word_starts) != manifest.vocab_size:
        raise UserError(f"{path}: `word_starts` does not fit `vocab_size`")
    for field in dataclasses.fields(manifest.symbols):
        index = getattr(manifest.symbols, field.name)
        if not -1 <= index < manifest.vocab_size:
            raise UserError(
                f"{path}: symbol `{field.name}` has id {index}, wanted one in "
                f"0..{manifest.vocab_size - 1}"
            )
    try:
        size = manifest.format.record_size
    except (KeyError, TypeError, ValueError) as e:
        raise UserError(f"{path}: `options` is not complete: {e}") from e
    for file in manifest.files:
        lane = manifest.segments_per_lane[file.split] * size
        if file.bytes != file.lanes * lane:
            raise UserError(
                f"{path}: {file.name} with {file.lanes} lanes of "
                f"{manifest.segments_per_lane[file.split]} records of {size} "
                f"bytes cannot have {file.bytes} bytes: a field was changed"
            )
