"""The manifest of pretraining data: two segments, lanes, targets."""

import base64
import dataclasses
import functools
import operator
import os
from typing import Any, ClassVar

import numpy as np

from common.contract.symbols import SymbolIds
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.records.manifest import (
    FILE_NAME,
    Manifest,
    RecordFile,
    check_name,
)
from data.records.record_format import Feature, RecordFormat, ids_dtype


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaneFile(RecordFile):
    """One file of records: `lanes` lanes of S segments, one after another.

    `segments` of them have text, the others fill the last lane; `tokens` is the
    number of text tokens in all segments (0 = not known: format 1), B's
    included.
    """

    direction: str
    number: int
    lanes: int
    segments: int
    targets: int
    is_next: int
    tokens: int = 0


def _option(name: str) -> property:
    """One of the builder's options (`BuildOptions`) as a property."""
    return property(lambda manifest: manifest.options[name])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingManifest(Manifest):
    """What a directory of pretraining data holds."""

    KIND: ClassVar[str] = "pretraining"
    COMMAND: ClassVar[str] = "python -m data.create_pretraining_data"
    # 2: one capacity of targets for the whole segment (`--sampler=balanced`),
    # blocks that span files, their text's SHA-256, tokens per file. 1 is still
    # read.
    FORMAT_VERSION: ClassVar[int] = 2
    READ_VERSIONS: ClassVar[tuple[int, ...]] = (1, 2)

    spiece_sha256: str
    symbols: SymbolIds
    word_starts: np.ndarray  # bool [V], pieces that begin a word
    segments_per_lane: dict[str, int]  # S per split
    # `train_entropy`, nats per target token of the train targets' own
    # distribution; `dev_cross_entropy` of the dev targets under it, None
    # without a dev split
    unigram: dict[str, float | None]
    # files of `--materialize_batches`: name, rows, records, bytes, sha256
    batches: tuple[dict, ...] = ()
    # as the vocabulary says; None in manifests of before, see `text`
    text_settings: dict | None = None
    # weight and counts of each named source of the text
    sources: dict[str, dict] = dataclasses.field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def text(self) -> TextSettings:
        if self.text_settings is None:
            return TextSettings.from_flags(
                self.options["uncased"], self.options["keep_accents"]
            )
        path = os.path.join(self.data_dir, FILE_NAME)
        return TextSettings.from_dict(self.text_settings, path)

    seq_len = _option("seq_len")  # T
    reuse_len = _option("reuse_len")
    num_predict = _option("num_predict")  # P
    perm_size = _option("perm_size")
    bi_data = _option("bi_data")
    num_passes = _option("num_passes")

    @property
    def uncased(self) -> bool:
        """Whether the text was lower-cased."""
        return self.text.uncased

    @property
    def text_rule(self) -> str:
        """Rule of the text settings."""
        return self.text.rule

    @property
    def unigram_entropy(self) -> float:
        """Nats per target token: what a model without context can reach."""
        return self.unigram["train_entropy"]

    @functools.cached_property
    def format(self) -> RecordFormat:
        return make_format(
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
        """Targets per token, wanted and found (None: format 1, no split)."""
        wanted = self.options["mask_beta"] / self.options["mask_alpha"]
        split_files = [f for f in self.files if f.split == split]
        tokens = sum(f.tokens for f in split_files)
        return wanted, sum(
            f.targets for f in split_files
        ) / tokens if tokens else None

    def empty_share(self, split: str) -> float:
        """Share of a split's records that are empty, at the ends of lanes."""
        split_files = [f for f in self.files if f.split == split]
        total = (
            sum(f.lanes for f in split_files) * self.segments_per_lane[split]
        )
        return (
            1 - sum(f.segments for f in split_files) / total if total else 0.0
        )

    def has_dev(self) -> bool:
        """Whether a dev split was held out."""
        return self.lanes("dev") > 0

    def sizes(self) -> list[tuple[str, int]]:
        batches = [(f["name"], f["bytes"]) for f in self.batches]
        return super().sizes() + batches

    def pack(self, value: dict[str, Any]) -> dict[str, Any]:
        packed = np.packbits(self.word_starts).tobytes()
        return super().pack(value) | {
            "symbols": dataclasses.asdict(self.symbols),
            "word_starts": base64.b64encode(packed).decode(),
        }

    @classmethod
    def unpack(cls, value: dict[str, Any]) -> dict[str, Any]:
        for batch in value["batches"]:
            check_name(batch["name"])
        lanes = value["segments_per_lane"]
        for split in {f["split"] for f in value["files"]}:
            operator.index(lanes[split])
        packed = np.frombuffer(base64.b64decode(value["word_starts"]), np.uint8)
        return super().unpack(value) | {
            "word_starts": np.unpackbits(packed)[: value["vocab_size"]] == 1,
            "symbols": SymbolIds(**value["symbols"]),
            "files": tuple(LaneFile(**f) for f in value["files"]),
            "batches": tuple(value["batches"]),
        }

    def check(self, path: str) -> None:
        if len(self.word_starts) != self.vocab_size:
            raise UserError(f"{path}: `word_starts` does not fit `vocab_size`")
        for field in dataclasses.fields(self.symbols):
            index = getattr(self.symbols, field.name)
            if not -1 <= index < self.vocab_size:
                raise UserError(
                    f"{path}: symbol `{field.name}` has id {index}, wanted one in "
                    f"0..{self.vocab_size - 1}"
                )
        try:
            size = self.format.record_size
            if not 0 <= operator.index(self.reuse_len) <= self.seq_len:
                raise ValueError(f"reuse_len is {self.reuse_len}")
        except (KeyError, TypeError, ValueError) as e:
            raise UserError(f"{path}: `options` is not complete: {e}") from e
        for file in self.files:
            lane = self.segments_per_lane[file.split] * size
            if file.bytes != file.lanes * lane:
                raise UserError(
                    f"{path}: {file.name} with {file.lanes} lanes of "
                    f"{self.segments_per_lane[file.split]} records of {size} "
                    f"bytes cannot have {file.bytes} bytes: a field was changed"
                )


# Numbers of a record. The bytes are little-endian int32 in this order.
META = np.dtype(
    [
        ("lane", "<i4"),  # number of the lane in its file
        ("segment", "<i4"),  # number of the segment in its lane
        ("flags", "<i4"),
        ("reuse_tokens", "<i4"),  # in the reuse part, the rest is padding
        ("a_tokens", "<i4"),
        ("b_tokens", "<i4"),
        ("label", "<i4"),  # 1 = B really follows A
        ("targets", "<i4"),  # used target slots
    ]
)
FLAG_BACKWARD = 1
FLAG_DOCUMENT = 2  # a document starts in the part that the lane advances by


def make_format(
    seq_len: int,
    num_predict: int,
    vocab_size: int,
    materialize_masks: bool = False,
) -> RecordFormat:
    """The format of the records of one data set."""
    features = [
        Feature("input_ids", ids_dtype(vocab_size), seq_len),
        Feature("meta", META),
        Feature("ranks", "<i2", seq_len),
        Feature("target_positions", "<u2", num_predict),
    ]
    if materialize_masks:
        row = -(-seq_len // 8)
        features += [
            Feature("perm_mask", "u1", seq_len * row),
            Feature("target_mapping", "u1", num_predict * row),
        ]
    return RecordFormat(features)
