"""One block of text -> its record files (runs in worker processes).

The bytes depend on the options, the seed, the block's number and the text only:
not on workers, on the other blocks (but for those that a layout reads, too) or
on what was built before. A block's summary names the text that its records are
made of.
"""

import abc
import hashlib
import os
from collections.abc import Iterable

import numpy as np

from common import files
from data.corpus import documents as corpus
from data.records.layout import Plan
from data.records.options import FactoryOptions
from data.records.record_format import RecordFormat


def block_summary_name(block: int) -> str:
    """File name of a finished block's counts; gone when all are finished."""
    return f"block-{block:05d}.json"


class BlockBuilder(abc.ABC):
    """Builds blocks one after the other."""

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

        Returns:
          JSON values: `files`, dicts of the fields of the manifest's record
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

        Returns:
          `bytes` and `sha256` of the file.
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
