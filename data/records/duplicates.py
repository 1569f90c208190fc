"""Documents whose text came before in the corpus."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from common.process import workers
from data.corpus import documents as corpus
from data.records import build_plan
from data.records.options import FactoryOptions


def find(
    options: FactoryOptions,
    blocks: Sequence[tuple[corpus.Block, ...]],
    stored: dict,
    save: Callable[[], None],
    log: Callable[[str], None],
    shares: Sequence[float] = (),
) -> dict[int, tuple[int, ...]]:
    """Numbers of the documents of each block that came before.

    White space does not count.

    Args:
      stored: the plan; holds what was found, and of which text.
      shares: of each block's documents that are read; () = all. A text's copy
        in a block of a larger share counts as the first, lest it be lost.
    """
    if "duplicates" in stored:
        digest_of = build_plan.hash_blocks(
            blocks, range(len(blocks)), options.num_workers
        )
        if [digest_of[i] for i in range(len(blocks))] != stored["text_sha256"]:
            log("the text was changed since duplicates were looked for")
            del stored["duplicates"]
    if "duplicates" not in stored:
        log("looking for duplicate documents")
        texts, duplicates = _find(options, blocks, shares)
        stored |= {"duplicates": duplicates, "text_sha256": texts}
        save()
    return {int(k): tuple(v) for k, v in stored["duplicates"].items()}


class _Hasher:
    """Hashes the documents of a block; runs in workers."""

    def __init__(self, blocks, text_field: str):
        self._blocks, self._field = blocks, text_field
        self._reader = corpus.BlockReader()

    def __call__(self, number: int) -> tuple[int, str, np.ndarray]:
        documents, digest = corpus.read_run(
            self._blocks[number], self._reader, self._field
        )
        digests = [
            hashlib.blake2b(
                " ".join(" ".join(d.lines).split()).encode(), digest_size=8
            ).digest()
            for d in documents
        ]
        return number, digest, np.frombuffer(b"".join(digests), np.uint64)


def _find(options, blocks, shares) -> tuple[list, dict]:
    """SHA-256 of each block, and documents whose text came before."""
    hashes, texts = [None] * len(blocks), [None] * len(blocks)
    for number, digest, block_hashes in workers.run(
        _Hasher,
        (blocks, options.text_field),
        list(range(len(blocks))),
        options.num_workers,
    ):
        hashes[number], texts[number] = block_hashes, digest
    order = np.arange(len(blocks))
    if shares:
        order = np.argsort(-np.asarray(shares), kind="stable")
    hashes = [hashes[i] for i in order]
    of_block = np.repeat(order, [len(h) for h in hashes])
    inside = np.concatenate([np.arange(len(h)) for h in hashes])
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    again = np.ones(len(inside), bool)
    again[first] = False
    result = {}
    for block, number_inside in zip(
        of_block[again], inside[again], strict=True
    ):
        result.setdefault(int(block), []).append(int(number_inside))
    return texts, result
