"""A whole build: plan, blocks, manifest; locked and resumable.

plan.json          written first: options, input files, blocks
block-*.json       one per finished block, while the build runs
*.tfrecord         records, each file complete from the moment it has its name
manifest.json      written last; the reader wants nothing else
"""

import os

from common import files, locks
from common.errors import UserError
from common.process import next_command, workers
from common.vocabularies import vocabulary
from data.corpus import documents as corpus
from data.records import build_plan
from data.records.build_plan import read_json, remove
from data.records.layout import BuildLayout, Plan, block_summary_name
from data.records.manifest import Manifest
from data.records.options import FactoryOptions

_TEMPORARY, _SUMMARIES, _RECORDS = ".*.tmp-*", "block-*.json", "*.tfrecord"


def summary(manifest: Manifest, command: str, sizes: dict, smaller: str) -> str:
    """Last lines of a build: the files, and the command that reads them.

    Args:
      manifest: of the build.
      command: the program that trains from it, without "python".
      sizes: `n_layer` and `d_model` of the model that it trains where no flag
        says them.
      smaller: the flags that train smaller models.
    """
    folder = manifest.data_dir
    model = os.path.join(os.path.dirname(folder.rstrip("/")), "model")
    words = (command, f"--data_dir={folder}", f"--model_dir={model}")
    return (
        f"{folder}: {len(manifest.files)} record files\n"
        f"the next command trains {sizes['n_layer']} layers of "
        f"{sizes['d_model']}: {smaller} train smaller models\n"
        f"{next_command.line(*words)}"
    )


def build(layout: BuildLayout, log=print) -> Manifest:
    """Builds a data directory, or goes on where a build was interrupted."""
    options = layout.options
    log(f"text: {layout.text_line()}")
    folder = options.output_dir
    try:
        files.make_directory(folder)
    except OSError as e:
        raise UserError(f"--output_dir={folder} cannot be made: {e}") from e
    with locks.held(folder, say=log):
        # Of killed processes; the lock says that none is alive.
        remove(folder, _TEMPORARY)
        record = build_plan.describe(layout)
        finished = build_plan.check_folder(folder, record)
        blocks = layout.plan_blocks()
        if finished:
            build_plan.check_finished_text(layout, blocks)
            log(f"{folder} is finished: nothing to do")
            # Of a process that was killed behind its manifest.
            remove(folder, _SUMMARIES)
            return layout.manifest.load(folder)
        log(f"{len(layout.paths)} files, {len(blocks)} blocks")
        try:
            plan = build_plan.make_plan(layout, blocks, record, log)
            summaries = _build_blocks(layout, plan, log)
            layout.check(summaries)
        except corpus.CorpusError:
            # Mended files are other files: what was built is of no use then.
            for pattern in ("*.json", _RECORDS, vocabulary.FILE_NAME):
                remove(folder, pattern)
            raise
        hashes = _text_hashes(summaries)
        manifest = layout.make_manifest(plan, summaries, hashes)
        manifest = layout.finish(manifest, log)
        # Those of another plan, of text that was changed since, go.
        remove(folder, _RECORDS, {name for name, _ in manifest.sizes()})
        manifest.write()
        remove(folder, _SUMMARIES)
    return manifest


# --- Blocks -------------------------------------------------------------------


def make_block_call(builder: type, options: FactoryOptions, plan: Plan):
    """For workers and Beam: block number -> summary, with files written."""
    return builder(options, plan).build


def _build_blocks(layout: BuildLayout, plan: Plan, log) -> list[dict]:
    options = layout.options
    numbers = range(len(plan.blocks))
    summary_of = {b: _finished_block(options.output_dir, b) for b in numbers}
    summaries = {b: s for b, s in summary_of.items() if s is not None}
    if summaries:
        log(f"{len(summaries)} of {len(plan.blocks)} blocks are there already")
        summaries = build_plan.drop_changed(
            summaries, plan, options.num_workers, log
        )
    missing = [b for b in numbers if b not in summaries]
    if options.runner == "beam":
        from data.records import beam as beam_runner

        beam_runner.run(layout.block_builder, options, plan, missing, log)
        # Of workers that were killed meanwhile; all others are done.
        remove(options.output_dir, _TEMPORARY)
        for block in missing:
            summaries[block] = _finished_block(options.output_dir, block)
        _check_finished(options.output_dir, summaries)
        missing = []
    results = workers.run(
        make_block_call,
        (layout.block_builder, options, plan),
        missing,
        options.num_workers,
    )
    for summary in results:
        summaries[summary["block"]] = summary
        tokens = layout.tokens(list(summaries.values()))
        log(
            f"block {len(summaries)} of {len(plan.blocks)}: "
            f"{tokens / 1e6:.2f} million tokens"
        )
    return [summaries[block] for block in range(len(plan.blocks))]


def _check_finished(output_dir: str, summaries: dict) -> None:
    """Raises UserError where Beam's workers wrote into another folder."""
    lost = [b for b, summary in summaries.items() if summary is None]
    if lost:
        raise UserError(
            f"--output_dir={output_dir} lacks {len(lost)} of {len(summaries)} "
            f"blocks that Beam's workers have built (the first is "
            f"{min(lost)}): it must be a path that all of them and this "
            "process reach, such as gs://..."
        )


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


def _text_hashes(summaries: list[dict]) -> tuple[str, ...]:
    """SHA-256 of the text of each block, the same wherever it was read.

    Raises UserError: a neighbour was read before or after its text was changed.
    """
    digest_of = {
        str(s["block"]): s["made_of"][str(s["block"])] for s in summaries
    }
    for summary in summaries:
        for number, digest in summary["made_of"].items():
            if digest != digest_of[number]:
                raise UserError(
                    f"the text of block {number} was changed during the "
                    "build; run the same command again: the blocks of other "
                    "text are built again"
                )
    return tuple(d.partition("-")[0] for d in digest_of.values())
