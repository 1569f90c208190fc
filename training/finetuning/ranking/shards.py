"""Vectors of the candidates' documents in files, made once.

Documents stream in the collection's order; those that are candidates fill
shards of a bounded size. A shard's name holds the hash of its texts and of the
vectors' source, so an interrupted run goes on with the next shard, and another
text, checkpoint or length makes other files.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from common.errors import UserError
from data.finetuning.features import cache
from data.finetuning.ranking.documents import Document, select
from data.text.tokenizer import Tokenizer
from training.finetuning.ranking.vectors import EncoderVectors, TableVectors

Vectors = EncoderVectors | TableVectors
SHARD_BYTES = 128 << 20
MAX_SHARD = 512


@dataclasses.dataclass(frozen=True)
class Shard:
    """Some documents with their vectors."""

    names: tuple[str, ...]
    path: str
    key: dict

    def pieces(self) -> Iterator[tuple[str, np.ndarray]]:
        """(id, piece ids int32 [n]) of each text."""
        arrays = self.load()
        rows = np.split(arrays["ids"], arrays["splits"][1:-1])
        yield from zip(self.names, rows, strict=True)

    def load(self) -> dict[str, np.ndarray]:
        """`ids` int32 [n], `splits` int64 [documents + 1], `states` [Y, n, D].

        Raises UserError: the file is gone or damaged.
        """
        arrays = cache.load(self.path, self.key)
        if arrays is None:
            raise UserError(
                f"{self.path} is missing or damaged: remove it and start the "
                "same command again"
            )
        return arrays


class Embedder:
    """Texts -> vectors, in shards."""

    def __init__(
        self, vectors: Vectors, tokenizer: Tokenizer, folder: str, dtype: str
    ):
        self.vectors, self.tokenizer = vectors, tokenizer
        self.folder, self.dtype = folder, dtype
        self.made = self.reused = 0

    def shard(
        self, kind: str, names: Sequence[str], texts: Sequence[str], length: int
    ) -> Shard:
        """Vectors of texts, from an earlier run where it made them."""
        key = {
            "vectors": self.vectors.fingerprint,
            "spiece": self.tokenizer.sha256,
            "text": self.tokenizer.settings.as_dict(),
            "length": length,
            "dtype": self.dtype,
            "texts": cache.hash_texts(zip(names, texts, strict=True)),
        }
        path = cache.cache_path(self.folder, kind, key)
        if cache.load(path, key) is None:
            cache.save(path, key, self._arrays(texts, length))
            self.made += len(texts)
        else:
            self.reused += len(texts)
        return Shard(tuple(names), path, key)

    def _arrays(self, texts, length: int) -> dict[str, np.ndarray]:
        rows = [ids[:length] for ids in self.tokenizer.encode_batch(texts)]
        arrays = {
            "ids": np.concatenate([np.zeros(0, np.int32), *rows]),
            "splits": np.cumsum([0, *map(len, rows)]).astype(np.int64),
        }
        states = self.vectors.embed(rows)
        if states is not None:
            arrays["states"] = states.astype(self.dtype)
        return arrays

    def documents_per_shard(self, length: int) -> int:
        """So many that a shard stays below `SHARD_BYTES`, at least one."""
        one = length * len(self.vectors.layers) * self.vectors.dim * 4
        return int(np.clip(SHARD_BYTES // one, 1, MAX_SHARD))

    def documents(
        self,
        stream: Iterable[Document],
        wanted: set[str],
        length: int,
        say: Callable[[str], None] = print,
    ) -> list[Shard]:
        """Shards of the wanted documents; the others pass by.

        Raises UserError: a document comes twice, or a wanted one not at all.
        """
        shards, start_time = [], time.monotonic()
        chosen = select(stream, wanted)
        size = self.documents_per_shard(length)
        while part := list(itertools.islice(chosen, size)):
            names = [d.id for d in part]
            shards.append(
                self.shard("documents", names, [d.text for d in part], length)
            )
        say(
            f"vectors of {self.made + self.reused} documents "
            f"({self.reused} from an earlier run) in {len(shards)} shards"
            + per_second(self.made, "documents", start_time)
        )
        return shards


def per_second(count: int, what: str, begin: float) -> str:
    """`, 12 documents/s` since a `time.monotonic`; "" without any."""
    seconds = time.monotonic() - begin
    return f", {count / max(seconds, 1e-9):.0f} {what}/s" if count else ""
