"""A whole build: plan, blocks, manifest; locked and resumable (L2).

plan.json          written first: options, input files, blocks
block-*.json       one per finished block, while the build runs
*.tfrecord         records, each file complete from the moment it has its name
manifest.json      written last; the reader wants nothing else
"""

import base64
import dataclasses
import os
import zlib

import numpy as np

from common import files, vocabulary, workers
from common.errors import UserError
from data.corpus import documents as corpus
from data.records import batch_writer, build_plan, build_report
from data.records.block_builder import BlockBuilder, Plan, block_summary_name
from data.records.build_directory import (
    locked,
    make_directory,
    read_json,
    remove_build,
    remove_leftovers,
    remove_records,
    remove_summaries,
)
from data.records.manifest import Manifest, RecordFile, load_manifest
from data.records.options import BuildOptions
from data.text.tokenizer import Tokenizer


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
        record = build_plan.describe(options, tokenizer, paths)
        finished = build_plan.check_folder(options.output_dir, record)
        blocks = build_plan.plan_blocks(options, paths)
        if finished:
            build_plan.check_finished_text(options, blocks)
            log(f"{options.output_dir} is finished: nothing to do")
            return load_manifest(options.output_dir)
        log(f"{len(paths)} files, {len(blocks)} blocks")
        plan = build_plan.make_plan(options, blocks, record, log)
        try:
            summaries = _build_blocks(options, plan, tokenizer, log)
        except corpus.CorpusError:
            # Mended files are other files: what was built is of no use then.
            remove_build(options.output_dir)
            raise
        if not any(s["counts"]["train_tokens"] for s in summaries):
            remove_build(options.output_dir)
            raise UserError(_no_text(options, summaries))
        hashes = _text_hashes(options, summaries)
        manifest = _make_manifest(options, tokenizer, plan, summaries, hashes)
        build_report.check_empty(manifest, options)
        if options.materialize_batches:
            log(f"writing batches of {options.materialize_batches} rows")
            manifest = batch_writer.write(manifest)
        build_report.report(manifest, log)
        vocabulary.copy(
            tokenizer.vocabulary, tokenizer.settings, options.output_dir
        )
        remove_records(
            options.output_dir,
            {f.name for f in manifest.files}
            | {f["name"] for f in manifest.batches},
        )
        manifest.write()
        remove_summaries(options.output_dir)
    return manifest


# --- Blocks -------------------------------------------------------------------


def make_block_call(options: BuildOptions, plan: Plan):
    """For workers and Beam: block number -> summary, with files written."""
    return BlockBuilder(options, plan).build


def _build_blocks(options, plan: Plan, tokenizer, log) -> list[dict]:
    numbers = range(len(plan.blocks))
    found = {b: _finished_block(options.output_dir, b) for b in numbers}
    summaries = {b: s for b, s in found.items() if s is not None}
    if summaries:
        log(f"{len(summaries)} of {len(plan.blocks)} blocks are there already")
        summaries = build_plan.drop_changed(
            summaries, plan, options.num_workers, log
        )
    missing = [b for b in numbers if b not in summaries]
    if options.runner == "beam":
        from data.records import beam as beam_runner

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
            size = files.size(os.path.join(output_dir, file["name"]))
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


def _text_hashes(options: BuildOptions, summaries: list[dict]) -> tuple:
    """SHA-256 of the text of each block, the same wherever it was read.

    Raises:
      UserError: a neighbour was read before or after its text was changed.
    """
    own = {str(s["block"]): s["made_of"][str(s["block"])] for s in summaries}
    for summary in summaries:
        for number, digest in summary["made_of"].items():
            if digest != own[number]:
                raise UserError(
                    f"--input_glob={options.input_glob}: the text of block "
                    f"{number} was changed during the build; run the same "
                    "command again: the blocks of other text are built again"
                )
    return tuple(d.partition("-")[0] for d in own.values())


def _make_manifest(options, tokenizer, plan, summaries, hashes) -> Manifest:
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
        versions=build_plan.versions(),
        segments_per_lane=plan.segments_per_lane,
        counts=counts,
        unigram=unigram_entropy(targets["train"], targets.get("dev")),
        files=tuple(RecordFile(**f) for s in summaries for f in s["files"]),
        text_sha256=hashes,
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


def describe(options: BuildOptions) -> str:
    """The options as one line per field, for the log."""
    return "\n".join(
        f"  {k} = {v}" for k, v in dataclasses.asdict(options).items()
    )
