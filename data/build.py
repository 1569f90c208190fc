"""A whole build: plan, blocks, manifest; locked and resumable (L2).

plan.json          written first: options, input files, blocks
block-*.json       one per finished block, while the build runs
*.tfrecord         records, each file complete from the moment it has its name
manifest.json      written last; the reader wants nothing else
"""

import base64
import dataclasses
import hashlib
import math
import os
import platform
import zlib

import numpy as np
import sentencepiece

from common import files, vocabulary
from common.errors import UserError
from data import batch_writer, corpus, storage, text, workers
from data.block_builder import BlockBuilder, Plan, block_summary_name
from data.build_directory import (
    LOCK_NAME,
    locked,
    make_directory,
    read_json,
    remove_build,
    remove_leftovers,
    remove_summaries,
)
from data.manifest import FILE_NAME, Manifest, RecordFile, load_manifest
from data.options import SPLITS, BuildOptions
from data.record_format import RecordFormat
from data.token_stream import MAX_WORD_PIECES
from data.tokenizer import Tokenizer

PLAN_NAME = "plan.json"
_BYTES_PER_TOKEN = 4.5  # English; only for the choice of the lanes' length
_LANES_WANTED = {"train": 128, "dev": 32}
_MAX_SEGMENTS = 64


def build(options: BuildOptions, log=print) -> Manifest:
    """Builds a data directory, or goes on where a build was interrupted.

    Args:
      options: what to build.
      log: called with lines of progress.

    Returns:
      The finished manifest.

    Raises:
      UserError: anything wrong with the options, the text or the directory.
    """
    tokenizer = Tokenizer(options.spiece_model_file, options.text)
    # The workers read the same, whatever lies beside the file then.
    options = dataclasses.replace(options, text=tokenizer.settings)
    log(f"text: {tokenizer.vocabulary.describe(tokenizer.settings)}")
    paths = corpus.list_files(options.input_glob)
    make_directory(options.output_dir)
    with locked(options.output_dir):
        remove_leftovers(options.output_dir)
        record = _describe(options, tokenizer, paths)
        if _is_finished(options.output_dir, record):
            log(f"{options.output_dir} is finished: nothing to do")
            return load_manifest(options.output_dir)
        plan = _plan(options, paths, record, log)
        try:
            summaries = _build_blocks(options, plan, tokenizer, log)
        except corpus.CorpusError:
            # Mended files are other files: what was built is of no use then.
            remove_build(options.output_dir)
            raise
        if not any(s["counts"]["train_tokens"] for s in summaries):
            remove_build(options.output_dir)
            raise UserError(_no_text(options, summaries))
        manifest = _make_manifest(options, tokenizer, plan, summaries)
        if options.materialize_batches:
            log(f"writing batches of {options.materialize_batches} rows")
            manifest = batch_writer.write(manifest)
        _report(manifest, log)
        vocabulary.copy(
            tokenizer.vocabulary, tokenizer.settings, options.output_dir
        )
        manifest.write()
        remove_summaries(options.output_dir)
    return manifest


# --- What a directory belongs to ---------------------------------------------


def _describe(options: BuildOptions, tokenizer: Tokenizer, paths) -> dict:
    """What a directory belongs to: options, vocabulary, input files."""
    return {
        "options": options.identity(),
        "spiece_sha256": tokenizer.sha256,
        "text_settings": tokenizer.settings.as_dict(),
        "inputs": [[os.path.basename(p), storage.size(p)] for p in paths],
        "versions": _versions(),
    }


def _versions() -> dict:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sentencepiece": sentencepiece.__version__,
        "unicode": text.UNICODE_VERSION,
    }


def _is_finished(path: str, record: dict) -> bool:
    """Whether a directory holds this very build; another one is refused."""
    found = read_json(os.path.join(path, PLAN_NAME))
    if found is None:
        others = [n for n in storage.list_names(path) if n != LOCK_NAME]
        if others:
            raise UserError(
                f"--output_dir={path} holds other files ({others[0]}); give an "
                "empty or new folder"
            )
        return False
    wrong = _differences(record, found)
    if wrong:
        raise UserError(
            f"--output_dir={path} holds a build of other parameters: "
            f"{'; '.join(wrong)}; give another folder or the same parameters"
        )
    return storage.exists(os.path.join(path, FILE_NAME))


def _differences(wanted: dict, found: dict) -> list[str]:
    lines = []
    for key, value in wanted.items():
        other = found.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            lines += [
                f"{k}: wanted {value.get(k)}, found {other.get(k)}"
                for k in sorted(value.keys() | other.keys())
                if value.get(k) != other.get(k)
            ]
        elif value != other:
            lines.append(f"{key}: wanted {value}, found {other}")
    return lines


# --- The plan -----------------------------------------------------------------


def _plan(options: BuildOptions, paths, record: dict, log) -> Plan:
    """Reads the plan of an interrupted build or makes one."""
    path = os.path.join(options.output_dir, PLAN_NAME)
    stored = read_json(path)
    blocks = []
    for p in paths:
        blocks += corpus.plan_blocks(p, int(options.block_megabytes * 1e6))
    if not blocks:
        raise UserError(f"--input_glob={options.input_glob}: all files empty")
    limit = corpus.LONGEST_DOCUMENT * options.block_megabytes
    long = [b for b in blocks if b.end - b.start >= limit * 1e6]
    if long:
        log(
            f"{long[0].path}: {len(long)} times no document ends within "
            f"{limit:g} MB: it is cut there, at a line's end; empty lines end "
            "documents"
        )
    if stored is None:
        log(f"{len(paths)} files, {len(blocks)} blocks")
        stored = record | {
            "segments_per_lane": _segments_per_lane(options, blocks),
            "duplicates": {},
        }
        if options.dedup:
            stored["duplicates"] = _find_duplicates(options, blocks, log)
        files.write_json(path, stored)
    duplicates = {int(k): tuple(v) for k, v in stored["duplicates"].items()}
    return Plan(tuple(blocks), stored["segments_per_lane"], duplicates)


def _segments_per_lane(options: BuildOptions, blocks) -> dict[str, int]:
    """S: long lanes where the corpus is large, enough lanes where it is not."""
    if options.segments_per_lane:
        return {split: options.segments_per_lane for split in SPLITS}
    tokens = sum(b.end - b.start for b in blocks) / _BYTES_PER_TOKEN
    advance = options.reuse_len or (options.seq_len - 3) / 2
    chosen = {}
    for split, share in (
        ("train", 1 - options.dev_fraction),
        ("dev", options.dev_fraction),
    ):
        segments = tokens * share / advance
        size = math.floor(segments / _LANES_WANTED[split])
        chosen[split] = int(np.clip(size, 1, _MAX_SEGMENTS))
    return chosen


class _Hasher:
    """Hashes the documents of a block; runs in workers."""

    def __init__(self, blocks, text_field: str):
        self._blocks, self._field = blocks, text_field
        self._reader = corpus.BlockReader()

    def __call__(self, number: int) -> tuple[int, np.ndarray]:
        block = self._blocks[number]
        found = corpus.documents(self._reader.read(block), block, self._field)
        digests = [
            hashlib.blake2b(
                " ".join(" ".join(d.lines).split()).encode(), digest_size=8
            ).digest()
            for d in found
        ]
        return number, np.frombuffer(b"".join(digests), np.uint64)


def _find_duplicates(options, blocks, log) -> dict[int, list[int]]:
    """Documents whose text, white space apart, came before."""
    log("looking for duplicate documents")
    hashes = [None] * len(blocks)
    for number, found in workers.run(
        _Hasher,
        (blocks, options.text_field),
        list(range(len(blocks))),
        options.num_workers,
    ):
        hashes[number] = found
    of_block = np.repeat(np.arange(len(blocks)), [len(h) for h in hashes])
    inside = np.concatenate([np.arange(len(h)) for h in hashes])
    _, first = np.unique(np.concatenate(hashes), return_index=True)
    again = np.ones(len(inside), bool)
    again[first] = False
    result = {}
    for block, place in zip(of_block[again], inside[again], strict=True):
        result.setdefault(int(block), []).append(int(place))
    return result


# --- Blocks -------------------------------------------------------------------


def make_block_call(options: BuildOptions, plan: Plan):
    """For workers and Beam: block number -> summary, with files written."""
    return BlockBuilder(options, plan).build


def _build_blocks(options, plan: Plan, tokenizer, log) -> list[dict]:
    summaries, missing = {}, []
    for block in range(len(plan.blocks)):
        summary = _finished_block(options.output_dir, block)
        if summary is None:
            missing.append(block)
        else:
            summaries[block] = summary
    if summaries:
        log(f"{len(summaries)} of {len(plan.blocks)} blocks are there already")
    if options.runner == "beam":
        from data import beam_runner

        beam_runner.run(options, plan, missing)
        for block in missing:
            summaries[block] = _finished_block(options.output_dir, block)
        missing = []
    results = workers.run(
        make_block_call, (options, plan), missing, options.num_workers
    )
    for summary in results:
        summaries[summary["block"]] = summary
        tokens = sum(s["counts"]["train_tokens"] for s in summaries.values())
        log(
            f"block {len(summaries)} of {len(plan.blocks)}: "
            f"{tokens / 1e6:.2f} million tokens"
        )
    return [summaries[block] for block in range(len(plan.blocks))]


def _finished_block(output_dir: str, block: int) -> dict | None:
    """The summary of a block whose files are all there."""
    path = os.path.join(output_dir, block_summary_name(block))
    summary = read_json(path)
    if summary is None:
        return None
    for file in summary["files"]:
        try:
            size = storage.size(os.path.join(output_dir, file["name"]))
        except OSError:
            return None
        if size != file["bytes"]:
            return None
    return summary


# --- The manifest -------------------------------------------------------------


def _no_text(options: BuildOptions, summaries: list[dict]) -> str:
    documents = sum(s["counts"]["documents"] for s in summaries)
    return (
        f"--input_glob={options.input_glob}: no text is left for training of "
        f"{documents} documents; check the files and the filters"
    )


def _make_manifest(options, tokenizer, plan, summaries) -> Manifest:
    counts, targets = {}, {}
    for summary in summaries:
        for name, value in summary["counts"].items():
            counts[name] = counts.get(name, 0) + value
        for split, packed in summary["targets"].items():
            raw = zlib.decompress(base64.b64decode(packed))
            found = np.frombuffer(raw, "<u4").astype(np.int64)
            targets[split] = targets.get(split, 0) + found
    return Manifest(
        data_dir=options.output_dir,
        options=options.identity(),
        spiece_sha256=tokenizer.sha256,
        vocab_size=tokenizer.vocab_size,
        symbols=tokenizer.symbols,
        word_starts=tokenizer.word_starts,
        versions=_versions(),
        segments_per_lane=plan.segments_per_lane,
        counts=counts,
        unigram=unigram_entropy(targets["train"], targets.get("dev")),
        files=tuple(RecordFile(**f) for s in summaries for f in s["files"]),
        text_settings=tokenizer.settings.as_dict(),
    )


def unigram_entropy(train: np.ndarray, dev: np.ndarray | None) -> dict:
    """Nats per target token without any context.

    Args:
      train: int [V], how often each id is a target of the train split.
      dev: int [V], of the dev split.

    Returns:
      `train_entropy`, and `dev_cross_entropy` under the train distribution
      with one added to every count (None without a dev split).
    """
    total = max(int(train.sum()), 1)
    p = train[train > 0] / total
    result = {
        "train_entropy": float(-(p * np.log(p)).sum()),
        "dev_cross_entropy": None,
    }
    if dev is not None and dev.sum():
        q = (train + 1) / (total + len(train))
        result["dev_cross_entropy"] = float(
            -(dev * np.log(q)).sum() / dev.sum()
        )
    return result


def _report(manifest: Manifest, log) -> None:
    counts = manifest.counts
    log(
        f"documents {counts['documents']}, left out: short "
        f"{counts['left_out_short']}, symbols {counts['left_out_symbols']}, "
        f"duplicate {counts['left_out_duplicate']}"
    )
    for split in SPLITS:
        lanes = manifest.lanes(split)
        if lanes:
            log(
                f"{split}: {counts[split + '_documents']} documents, "
                f"{counts[split + '_tokens']} tokens, {lanes} lanes of "
                f"{manifest.segments_per_lane[split]} segments per direction: "
                f"batches of up to {lanes * (1 + manifest.bi_data)} rows"
            )
    long = counts["train_tokens_of_long_words"] / counts["train_tokens"]
    if long > 0.5:
        log(
            f"{long:.0%} of the tokens are in words of more than "
            f"{MAX_WORD_PIECES} pieces (a script without spaces?): spans are "
            "made of tokens there, as with --span_unit=token"
        )
    size = RecordFormat(
        manifest.seq_len, manifest.num_predict, manifest.vocab_size
    ).record_size
    log(
        f"{size} bytes per record; unigram entropy of the targets "
        f"{manifest.unigram_entropy:.3f} nats"
    )


def describe(options: BuildOptions) -> str:
    """The options as one line per field, for the log."""
    return "\n".join(
        f"  {k} = {v}" for k, v in dataclasses.asdict(options).items()
    )
