"""The plan of a build: what it belongs to, blocks, their text.

`plan.json` is written first and kept. A folder belongs to options, vocabulary,
versions, names and sizes of the input files, and to their text: every finished
block knows the SHA-256 of the text that it was made of, its own and a
neighbour's, and the manifest that of all blocks.
"""

import fnmatch
import hashlib
import json
import os
import platform
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
import sentencepiece

from common import files, locks
from common.errors import UserError
from common.process import workers
from data.corpus import documents as corpus
from data.records.layout import BuildLayout, Plan
from data.records.manifest import FILE_NAME
from data.records.options import FactoryOptions
from data.text import normalization as text

PLAN_NAME = "plan.json"
_SHOWN = 80  # characters of a value in a message


# --- What a directory belongs to ---------------------------------------------


def describe(layout: BuildLayout) -> dict:
    """What a directory belongs to: options, vocabulary, input files."""
    return layout.identity() | {
        "inputs": [[os.path.basename(p), files.size(p)] for p in layout.paths],
        "versions": versions(),
    }


def versions() -> dict:
    """What the bytes depend on beside the options."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sentencepiece": sentencepiece.__version__,
        "unicode": text.UNICODE_VERSION,
    }


def check_folder(path: str, record: dict) -> bool:
    """Whether a folder holds this very build, finished, by all but the text.

    Raises UserError: it holds another build or other files.
    """
    record_there = read_json(os.path.join(path, PLAN_NAME))
    if record_there is None:
        others = [n for n in files.list_names(path) if n != locks.LOCK_NAME]
        if others:
            raise UserError(
                f"--output_dir={path} holds other files ({others[0]}); give an "
                "empty or new folder"
            )
        return False
    wrong = _differences(record, record_there)
    if wrong:
        raise UserError(
            f"--output_dir={path} holds a build of other parameters: "
            f"{'; '.join(wrong)}; give another folder or the same parameters"
        )
    return files.exists(os.path.join(path, FILE_NAME))


def check_finished_text(layout: BuildLayout, blocks) -> None:
    """UserError names a finished build's first block whose text is another."""
    options = layout.options
    stored = layout.manifest.load(options.output_dir).text_sha256
    digest_of = hash_blocks(blocks, range(len(blocks)), options.num_workers)
    for block, parts in enumerate(blocks):
        old = stored[block] if block < len(stored) else "none"
        if digest_of[block] != old:
            raise UserError(
                f"--output_dir={options.output_dir} was built of other text: "
                f"block {block} (from {parts[0].path}, byte {parts[0].start}): "
                f"wanted SHA-256 {digest_of[block][:16]}, found {old[:16]}; the "
                "files were changed since: give another folder or the same text"
            )


def _differences(wanted: dict, stored: dict) -> list[str]:
    lines = []
    for key, value in wanted.items():
        other = stored.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            lines += [
                f"{k}: wanted {value.get(k)}, found {other.get(k)}"
                for k in sorted(value.keys() | other.keys())
                if value.get(k) != other.get(k)
            ]
        elif key == "inputs" and value != other:
            lines.append(_input_difference(value, other or []))
        elif value != other:
            lines.append(f"{key}: wanted {value}, found {other}")
    return lines


def _input_difference(wanted: list, stored: list) -> str:
    """The first file that differs; there may be thousands."""
    pairs = enumerate(zip(wanted, stored, strict=False))
    first = next((i for i, (a, b) in pairs if a != b), None)
    if first is None:
        return f"inputs: wanted {len(wanted)} files, found {len(stored)}"
    (name, size), (old_name, old_size) = wanted[first], stored[first]
    return (
        f"inputs: wanted {len(wanted)} files, found {len(stored)}; file "
        f"{first}: wanted {name[:_SHOWN]} of {size} bytes, found "
        f"{old_name[:_SHOWN]} of {old_size} bytes"
    )


# --- The plan -----------------------------------------------------------------


def make_plan(layout: BuildLayout, blocks, record: dict, log) -> Plan:
    """Reads the plan of an interrupted build or makes one."""
    options = layout.options
    path = os.path.join(options.output_dir, PLAN_NAME)
    stored = read_json(path)
    limit = corpus.LONGEST_DOCUMENT * options.block_megabytes * 1e6
    long = [p[0] for p in blocks if sum(b.end - b.start for b in p) >= limit]
    if long:
        log(
            f"{long[0].path}: {len(long)} times no document ends within "
            f"{limit / 1e6:g} MB: it is cut there, at a line's end; empty lines "
            "end documents"
        )
    if stored is None:
        stored = dict(record)
    return layout.make_plan(
        blocks, stored, lambda: files.write_json(path, stored), log
    )


# --- Text ---------------------------------------------------------------------


def _text_hasher(blocks):
    """What workers do: block number -> it and the SHA-256 of its text."""
    reader = corpus.BlockReader()
    return lambda n: (n, corpus.read_parts(blocks[n], reader)[1])


def hash_blocks(blocks, numbers, num_workers: int) -> dict[int, str]:
    """SHA-256 of the text of the blocks with these numbers."""
    return dict(
        workers.run(_text_hasher, (blocks,), list(numbers), num_workers)
    )


def drop_changed(summaries: dict, plan: Plan, num_workers: int, log) -> dict:
    """The finished blocks whose text is as it was when they were built."""
    numbers = {int(n) for s in summaries.values() for n in s["made_of"]}
    numbers &= set(range(len(plan.blocks)))
    digest_of = {
        str(number): digest + plan.suffix(number)
        for number, digest in hash_blocks(
            plan.blocks, sorted(numbers), num_workers
        ).items()
    }
    kept = {
        block: summary
        for block, summary in summaries.items()
        if summary["made_of"].items() <= digest_of.items()
    }
    if len(kept) < len(summaries):
        changed = sorted(summaries.keys() - kept.keys())
        log(
            f"{len(changed)} finished blocks (the first is {changed[0]}) are of "
            "text that was changed since: they are built again"
        )
    return kept


def remove(path: str, pattern: str, keep: Container[str] = ()) -> None:
    """Removes a folder's files whose names match a pattern of the shell."""
    for name in fnmatch.filter(files.list_names(path), pattern):
        if name not in keep:
            files.remove(os.path.join(path, name))


def read_json(path: str) -> dict[str, Any] | None:
    """A JSON file's object; None where there is none or it is damaged."""
    try:
        value = json.loads(files.read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def find_duplicates(
    options: FactoryOptions,
    blocks: Sequence[tuple[corpus.Block, ...]],
    stored: dict,
    save: Callable[[], None],
    log: Callable[[str], None],
    shares: Sequence[float] = (),
) -> dict[int, tuple[int, ...]]:
    """Numbers of the documents of each block that came before.

    White space does not count. The plan, `stored`, holds what was found, and of
    which text. Of each block `shares` of the documents are read; () = all: a
    text's copy in a block of a larger share counts as the first, lest it be
    lost.
    """
    if "duplicates" in stored:
        digest_of = hash_blocks(blocks, range(len(blocks)), options.num_workers)
        if [digest_of[i] for i in range(len(blocks))] != stored["text_sha256"]:
            log("the text was changed since duplicates were looked for")
            del stored["duplicates"]
    if "duplicates" not in stored:
        log("looking for duplicate documents")
        texts, duplicates = _look_for_duplicates(options, blocks, shares)
        stored |= {"duplicates": duplicates, "text_sha256": texts}
        save()
    return {int(k): tuple(v) for k, v in stored["duplicates"].items()}


def _document_hasher(blocks, text_field: str):
    """What workers do: block number -> its SHA-256, a hash per document."""
    reader = corpus.BlockReader()

    def hash_documents(number: int) -> tuple[str, np.ndarray]:
        documents, digest = corpus.read_run(blocks[number], reader, text_field)
        digests = [
            hashlib.blake2b(
                " ".join(" ".join(d.lines).split()).encode(), digest_size=8
            ).digest()
            for d in documents
        ]
        return digest, np.frombuffer(b"".join(digests), np.uint64)

    return hash_documents


def _look_for_duplicates(options, blocks, shares) -> tuple[list, dict]:
    """SHA-256 of each block, and documents whose text came before."""
    results = workers.run(
        _document_hasher,
        (blocks, options.text_field),
        list(range(len(blocks))),
        options.num_workers,
        ordered=True,
    )
    texts, hashes = map(list, zip(*results, strict=True))
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
