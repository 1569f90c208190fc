"""What a kind of records brings to the factory.

The factory (`build`, ...) knows text in blocks, workers, resume, records of equal
size and files. A *layout* knows what the records hold: it turns blocks of text
into records and their manifest.
"""

import abc
import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from common import files
from data.corpus import documents as corpus
from data.corpus.documents import Block
from data.records.manifest import Manifest
from data.records.options import FactoryOptions
from data.records.record_format import RecordFormat


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all workers of a build share."""

    blocks: tuple[tuple[Block, ...], ...]

    def suffix(self, block: int) -> str:
        """What a block's records depend on beside text and options; "" = no
        more. Stands behind the SHA-256 of its text."""
        return ""


class BuildLayout(abc.ABC):
    """One build of one kind of records."""

    options: FactoryOptions
    paths: Sequence[str]
    # its objects build blocks in workers, made of `options` and the plan
    # (`BlockBuilder`)
    block_builder: ClassVar[type]
    manifest: ClassVar[type[Manifest]]  # of what a finished folder holds
    token_count: ClassVar[str]  # the log's tokens in the summaries' counts

    def tokens(self, summaries: Sequence[dict]) -> int:
        """Tokens of finished blocks."""
        return sum(s["counts"][self.token_count] for s in summaries)

    @abc.abstractmethod
    def text_line(self) -> str:
        """How text is handled, for the log."""

    @abc.abstractmethod
    def identity(self) -> dict[str, Any]:
        """What a folder belongs to besides its input files: JSON values."""

    @abc.abstractmethod
    def plan_blocks(self) -> list[tuple[Block, ...]]:
        """The parts of all blocks; UserError: there is no text at all."""

    @abc.abstractmethod
    def make_plan(
        self,
        blocks: Sequence[tuple[Block, ...]],
        stored: dict[str, Any],
        save: Callable[[], None],
        log: Callable[[str], None],
    ) -> Plan:
        """Goes on with a plan, `stored` in `plan.json`, or makes one.

        What is to be kept is added to `stored`.
        """

    @abc.abstractmethod
    def check(self, summaries: Sequence[dict]) -> None:
        """UserError where nothing can be done with the text of all blocks."""

    @abc.abstractmethod
    def make_manifest(
        self, plan: Plan, summaries: Sequence[dict], text_sha256: tuple
    ) -> Manifest:
        """The manifest of finished blocks."""

    @abc.abstractmethod
    def finish(self, manifest: Manifest, log) -> Manifest:
        """Writes what lies beside the records; says what was built.

        Gives the manifest to be written, with all files that are to be kept.
        """


def block_summary_name(block: int) -> str:
    """File name of a finished block's counts; gone when all are finished."""
    return f"block-{block:05d}.json"


class BlockBuilder(abc.ABC):
    """One block of text -> its record files, in worker processes.

    The bytes depend on the options, the seed, the block's number and the text
    only: not on workers, on the other blocks (but for those that a layout
    reads, too) or on what was built before. A block's summary names the text
    that its records are made of.
    """

    format: RecordFormat

    def __init__(self, options: FactoryOptions, plan: Plan):
        self.options = options
        self.plan = plan
        self._reader = corpus.BlockReader()
        self._made_of = {}

    def build(self, block: int) -> dict:
        """Writes the files of a block, then its summary; returns that."""
        self._made_of = {}
        summary = {"block": block} | self.write_block(block)
        summary["made_of"] = self._made_of
        path = os.path.join(self.options.output_dir, block_summary_name(block))
        files.write_json(path, summary)
        return summary

    @abc.abstractmethod
    def write_block(self, block: int) -> dict:
        """Writes the files of a block.

        Gives JSON values: `files`, dicts of the fields of the manifest's record
        files, and what the layout's manifest is made of.
        """

    def read(self, block: int) -> list[corpus.Document]:
        """The documents of a block, which is noted in its summary."""
        block_documents, digest = corpus.read_run(
            self.plan.blocks[block], self._reader, self.options.text_field
        )
        self._note(block, digest)
        return block_documents

    def read_bytes(self, block: int) -> list[bytes]:
        """The bytes of a block's parts, which is noted in its summary."""
        part_bytes, digest = corpus.read_parts(
            self.plan.blocks[block], self._reader
        )
        self._note(block, digest)
        return part_bytes

    def _note(self, block: int, digest: str) -> None:
        self._made_of[str(block)] = digest + self.plan.suffix(block)

    def rng(self, *parts: int) -> np.random.Generator:
        """A generator that is a function of the seed and `parts` alone."""
        seed = np.random.SeedSequence([self.options.seed, *parts])
        return np.random.Generator(np.random.PCG64(seed))

    def write_records(
        self, name: str, chunks: Iterable[dict[str, np.ndarray]]
    ) -> dict:
        """Writes arrays of records, in order, as one file.

        Gives its `bytes` and `sha256`.
        """
        digest, size = hashlib.sha256(), 0
        path = os.path.join(self.options.output_dir, name)
        with files.atomic_open(path) as f:
            for arrays in chunks:
                data = self.format.encode(arrays).tobytes()
                f.write(data)
                digest.update(data)
                size += len(data)
        return {"bytes": size, "sha256": digest.hexdigest()}
