"""The manifest of language-model data: streams and what they count."""

import dataclasses
import functools
import math
import os
from typing import Any, ClassVar

import numpy as np

from common import summary
from common.errors import UserError
from data.language_modeling.options import SPLITS
from data.records.manifest import FILE_NAME, Manifest, RecordFile
from data.records.record_format import Feature, RecordFormat, ids_dtype
from data.text import lm_vocabulary


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamFile(RecordFile):
    """One file of records: the stream of one block."""

    records: int  # of the file; all are full but the last
    tokens: int  # of the stream
    sentences: int  # line ends in it
    unknown: int  # tokens that are `<unk>`
    mark_pairs: int  # tokens that are a mark and follow one


@dataclasses.dataclass(frozen=True)
class SplitCounts:
    """What a split holds, of its text and of its stream."""

    tokens: int  # of the stream, line ends and marks included
    words: int  # runs of characters between white space in the text
    lines: int
    characters: int  # of the text, line ends included, as `bytes`
    bytes: int  # UTF-8
    unknown: int  # tokens that are `<unk>`

    def rates(self, nats: float, free: int = 0) -> dict[str, float]:
        """A loss in every unit, so that any two vocabularies can be compared.

        `token_perplexity`; `word_perplexity` per word;
        `word_and_line_perplexity` with each line's end as one word more, as
        word-level results count; `bits_per_token`, what papers on enwik8 and
        text8 call bits per character; `bits_per_character`, `bits_per_byte` of
        the text.

        Args:
          nats: mean loss of the predicted tokens. The text's loss is taken as
            `nats * (tokens - free)`: any other token that was not predicted
            counts as the mean.
          free: tokens that were left out because they cost nearly nothing.
        """
        counted = self.tokens - free
        total = nats * counted

        def perplexity(count: int) -> float:
            return summary.perplexity(total / count) if count else math.nan

        def bits(count: int) -> float:
            return total / count / math.log(2) if count else math.nan

        return {
            "token_perplexity": perplexity(counted),
            "word_perplexity": perplexity(self.words),
            "word_and_line_perplexity": perplexity(self.words + self.lines),
            "bits_per_token": bits(counted),
            "bits_per_character": bits(self.characters),
            "bits_per_byte": bits(self.bytes),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamManifest(Manifest):
    """What a directory of token streams holds.

    Its `counts` are split -> the fields of `SplitCounts`.
    """

    KIND: ClassVar[str] = "language_modeling"
    COMMAND: ClassVar[str] = "python -m data.create_lm_data"
    FORMAT_VERSION: ClassVar[int] = 1
    READ_VERSIONS: ClassVar[tuple[int, ...]] = (1,)

    vocabulary_sha256: str
    format_version: int = FORMAT_VERSION

    @classmethod
    def unpack(cls, value: dict[str, Any]) -> dict[str, Any]:
        for counts in value["counts"].values():
            SplitCounts(**counts)
        return super().unpack(value) | {
            "files": tuple(StreamFile(**f) for f in value["files"])
        }

    def check(self, path: str) -> None:
        size = self.format.record_size
        for file in self.files:
            full = -(-file.tokens // self.options["record_tokens"])
            if file.records != full or file.bytes != full * size:
                raise UserError(
                    f"{path}: {file.name} with {file.tokens} tokens must have "
                    f"{full} records of {size} bytes, found {file.records} and "
                    f"{file.bytes} bytes: a field was changed"
                )

    @functools.cached_property
    def format(self) -> RecordFormat:
        return make_format(self.options["record_tokens"], self.vocab_size)

    def select(self, split: str) -> list[StreamFile]:
        """A split's files, in the stream's order; UserError: no such split."""
        split_files = [f for f in self.files if f.split == split]
        if not split_files:
            there = [s for s in SPLITS if any(f.split == s for f in self.files)]
            raise UserError(
                f"{self.data_dir} has no {split} split, only "
                f"{', '.join(there)}; "
                + (
                    f"build it with --{split}_glob"
                    if split in SPLITS
                    else "give one of these"
                )
            )
        return split_files

    def has(self, split: str) -> bool:
        return any(f.split == split for f in self.files)

    def split_counts(self, split: str) -> SplitCounts:
        self.select(split)
        return SplitCounts(**self.counts[split])

    def mark_pairs(self, split: str) -> int:
        """Tokens of a split that are a mark and follow one."""
        split_files = self.select(split)
        inside = sum(f.mark_pairs for f in split_files)
        # Between blocks: every block begins and ends with a mark then.
        return inside + (len(split_files) - 1) * (inside > 0)

    def vocabulary_path(self) -> str:
        """Where the copy of the vocabulary lies."""
        name = lm_vocabulary.FILE_NAME
        if self.options["unit"] == "piece":
            name = "spiece.model"
        return os.path.join(self.data_dir, name)

    def vocabulary(self, path: str = "") -> lm_vocabulary.Vocabulary:
        """The vocabulary of the streams, or another copy of it at `path`.

        Raises UserError: it is missing, damaged or another one.
        """
        path = path or self.vocabulary_path()
        vocabulary = lm_vocabulary.load(path, self.options["line_end"])
        vocabulary.require(
            self.vocabulary_sha256, os.path.join(self.data_dir, FILE_NAME)
        )
        return vocabulary


# Numbers of a record, little-endian int32 in this order.
META = np.dtype(
    [
        ("block", "<i4"),  # number of the block
        ("record", "<i4"),  # number of the record in its file
        ("tokens", "<i4"),  # used places; all but in the last record of a file
    ]
)


def make_format(record_tokens: int, vocab_size: int) -> RecordFormat:
    """The format of the records of one data set."""
    return RecordFormat(
        [
            Feature("input_ids", ids_dtype(vocab_size), record_tokens),
            Feature("meta", META),
            # One bit per token, first token lowest: 1 = a line ends here.
            Feature("line_ends", "u1", record_tokens // 8),
        ]
    )
