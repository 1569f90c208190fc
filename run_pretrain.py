"""Pretrains XLNet: permutation language modelling with segment recurrence.

    python run_pretrain.py --data_dir=RECORDS --model_dir=OUT \\
        --n_layer=6 --d_model=256 --n_head=4 --d_head=64 --d_inner=1024 \\
        --mem_len=96 --train_batch_size=16 --train_steps=10000

RECORDS comes from `python -m data.create_pretraining_data`. The same command
started again goes on where it stopped. See docs/pretraining.md.
"""

import functools
import math
import os
import shlex
import time

import tensorflow as tf

from common import files, text_settings, vocabulary
from common.errors import UserError
from common.vocabulary import Vocabulary
from data.pretraining import reader as pretrain_reader
from data.records import build_report
from data.records.manifest import FILE_NAME as MANIFEST_NAME
from data.records.manifest import Manifest
from data.records.options import ReaderOptions
from data.task_spec import SPIECE_NAME
from flags import app, common_flags, model_flags, pretrain_flags, strategy_flags
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.xlnet.config import FILE_NAME as CONFIG_NAME
from modeling.encoders.xlnet.config import XLNetConfig
from training import loop
from training.objectives import build as heads
from training.options import RunOptions
from training.pretrain_options import PretrainOptions


def main() -> None:
    """Runs; an error of the data, which tf.data wraps, becomes one line."""
    try:
        run()
    except tf.errors.OpError as e:
        error = pretrain_reader.as_user_error(e)
        if error is None:
            raise
        raise error from e


def run() -> None:
    """Reads the flags, checks them against the data, trains and evaluates."""
    recipe = pretrain_flags.apply_recipe()
    what = pretrain_flags.from_flags()
    options = pretrain_flags.run_from_flags()
    for line in recipe:
        print(line)
    manifest = check_data(what)
    spiece = find_vocabulary(what, manifest, options)
    if what.follow:
        wait_for_config(options.model_dir)
    config = build_config(manifest, options)
    objective = heads.build_objective(
        "pretraining",
        config,
        bi_data=manifest.bi_data,
        next_sentence=what.next_sentence,
        loss_chunk_size=what.loss_chunk_size,
        recompute_layers=strategy_flags.recompute_layers(),
    )
    held_out = held_out_data(what, manifest)
    eval_fn = None
    if held_out and what.mode != "train":
        eval_fn = input_fn(*held_out, what, options, repeat=False)
    if what.mode == "eval":
        evaluate(objective, eval_fn, what, options)
        return
    facts = must_match(manifest)
    result = loop.train(
        objective,
        input_fn(manifest, "train", what, options, repeat=True),
        options,
        eval_input_fn=eval_fn,
        must_match=facts,
        flags=common_flags.all_flags(),
        notes=data_lines(manifest, held_out, options, spiece),
        begin=functools.partial(copy_vocabulary, spiece, manifest),
    )
    if result.writes_files and result.finished:
        report(result, manifest, options, spiece)


def check_data(what: PretrainOptions) -> Manifest:
    """The manifest, checked against what the user gave.

    Raises:
      UserError: no data, or they differ from the flags or the vocabulary.
    """
    manifest = pretrain_reader.load_manifest(what.data_dir)
    manifest.require(**what.wanted)
    return manifest


def find_vocabulary(
    what: PretrainOptions, manifest: Manifest, options: RunOptions
) -> Vocabulary | None:
    """--spiece_model_file or the data's copy, checked; None without either.

    Raises:
      UserError: the vocabulary is not the one of the data or says other text
        settings than they were built with; or the checkpoint to start from or
        to evaluate is of another vocabulary or of other settings.
    """
    path = what.spiece_model_file
    copied = os.path.join(manifest.data_dir, SPIECE_NAME)
    if not path and tf.io.gfile.exists(copied):
        path = copied
    found = vocabulary.read(path) if path else None
    if found:
        manifest.require(spiece_sha256=found.sha256)
        text_settings.resolve(
            manifest.text,
            found.recorded,
            f"{manifest.data_dir} was built with other text handling than "
            f"its vocabulary's: {path}",
        )
    folders = []
    if options.init_checkpoint:
        folders.append(checkpoints.resolve(options.init_checkpoint).folder)
    if what.mode == "eval":
        folders.append(options.model_dir)
    of_data = Vocabulary(
        os.path.join(manifest.data_dir, MANIFEST_NAME),
        b"",
        manifest.spiece_sha256,
        manifest.text,
        "",
    )
    vocabulary.settle(of_data, None, *folders)
    return found


def wait_for_config(model_dir: str) -> None:
    """Until the job to follow has said what its model is."""
    path = os.path.join(model_dir, CONFIG_NAME)
    if not tf.io.gfile.exists(path):
        print(f"waiting for {path}", flush=True)
    while not tf.io.gfile.exists(path):
        time.sleep(1)


def build_config(manifest: Manifest, options: RunOptions) -> XLNetConfig:
    """The architecture, from flags, file, `model_dir` or checkpoint.

    Raises:
      UserError: sizes that do not fit each other or the data.
    """
    known = None
    kept = os.path.join(options.model_dir, CONFIG_NAME)
    if tf.io.gfile.exists(kept):
        known = XLNetConfig.from_json_file(kept)
    elif options.init_checkpoint:
        known = checkpoints.find_config(options.init_checkpoint)
    defaults = {"reuse_len": manifest.reuse_len}
    if known is None:
        # 384 of 512 in the paper.
        defaults["mem_len"] = manifest.seq_len * 3 // 4
        if not manifest.reuse_len:
            defaults["mem_len"] = 0
    elif known.mem_len is not None:
        defaults["mem_len"] = known.mem_len
    config = model_flags.from_flags(manifest.vocab_size, known, **defaults)
    if config.mem_len and not manifest.reuse_len:
        raise UserError(
            f"`mem_len` is {config.mem_len} but {manifest.data_dir} was built "
            "with --reuse_len=0, so that nothing can be kept; give --mem_len=0 "
            "or build the data with --reuse_len"
        )
    if config.attn_type == "uni":
        raise UserError(
            "permutation language modelling needs --attn_type=bi; for a "
            "left-to-right language model use run_lm.py"
        )
    return config


def held_out_data(
    what: PretrainOptions, manifest: Manifest
) -> tuple[Manifest, str] | None:
    """(manifest, split) to evaluate on, or None.

    Raises:
      UserError: `eval_data_dir` does not fit the training data.
    """
    if what.eval_data_dir:
        other = pretrain_reader.load_manifest(what.eval_data_dir)
        other.require(
            spiece_sha256=manifest.spiece_sha256,
            text=manifest.text,
            seq_len=manifest.seq_len,
            reuse_len=manifest.reuse_len,
            bi_data=manifest.bi_data,
        )
        return other, "dev" if other.has_dev() else "train"
    if manifest.has_dev():
        return manifest, "dev"
    if what.mode == "eval":
        raise UserError(
            f"{what.data_dir} has no dev split; build it with "
            "--dev_fraction=0.01 or give --eval_data_dir"
        )
    return None


def input_fn(
    manifest: Manifest,
    split: str,
    what: PretrainOptions,
    options: RunOptions,
    repeat: bool,
):
    """`params -> tf.data.Dataset` of global batches, forward rows first."""

    def make(params):
        return pretrain_reader.make_dataset(
            manifest,
            ReaderOptions(
                global_batch=params["batch_size"],
                seed=options.strategy.seed,
                start_step=params["start_step"],
                split=split,
                repeat=repeat,
                reset_memory_at_document=what.reset_memory_at_document,
                resample_permutation=repeat and what.resample_permutation,
                resample_targets=repeat and what.resample_targets,
            ),
        )

    return make


def must_match(manifest: Manifest) -> dict:
    """What a resumed run cannot change about its data."""
    path = os.path.join(manifest.data_dir, MANIFEST_NAME)
    return {
        "vocabulary": manifest.spiece_sha256,
        "text_settings": manifest.text.as_dict(),
        "data": files.sha256_of_file(path),
        "seq_len": manifest.seq_len,
        "reuse_len": manifest.reuse_len,
        "num_predict": manifest.num_predict,
        "bi_data": manifest.bi_data,
    }


def data_lines(
    manifest, held_out, options: RunOptions, spiece: Vocabulary | None
) -> list[str]:
    """The data's lines of the start-up summary."""
    tokens = options.train_batch_size * manifest.seq_len
    targets = options.train_batch_size * manifest.num_predict
    lines = [
        f"data         {manifest.data_dir}: {manifest.lanes('train')} lanes of "
        f"{manifest.segments_per_lane['train']} segments"
        + (" per direction" if manifest.bi_data else "")
        + f", vocabulary {manifest.spiece_sha256[:12]}",
        f"text         {manifest.text} (as the data were built)",
        f"             T={manifest.seq_len} reuse {manifest.reuse_len} "
        f"P={manifest.num_predict}; {tokens:,d} positions and up to "
        f"{targets:,d} targets per step",
        f"             ln(vocabulary) {math.log(manifest.vocab_size):.3f}, "
        f"unigram entropy {manifest.unigram_entropy:.3f} nats per target",
        f"             {build_report.rate_line(manifest, 'train')}; "
        f"{manifest.empty_share('train'):.1%} of the records are empty",
    ]
    if spiece is None:
        lines.append(
            f"note: {manifest.data_dir} holds no copy of its vocabulary: give "
            "--spiece_model_file, so that it is kept beside the checkpoints"
        )
    if held_out:
        other, split = held_out
        lines.append(
            f"held out     {split} split of {other.data_dir}: "
            f"{other.lanes(split)} lanes of {other.segments_per_lane[split]}"
        )
    return lines


def evaluate(objective, eval_fn, what: PretrainOptions, options) -> None:
    """Held-out loss of the newest checkpoint, or of each new one."""
    if what.follow:
        loop.evaluate_continuously(objective, eval_fn, options)
        return
    result = loop.evaluate(objective, eval_fn, options)
    for name, value in sorted(result.metrics.items()):
        print(f"{name} {value:.6g}")


def copy_vocabulary(
    found: Vocabulary | None, manifest: Manifest, model_dir: str
) -> None:
    """So that fine-tuning and serving find it beside the checkpoint."""
    if found:
        vocabulary.copy(found, manifest.text, model_dir)


def report(
    result: loop.TrainResult,
    manifest,
    options: RunOptions,
    spiece: Vocabulary | None,
) -> None:
    """The last lines: how far it came, and what to run next."""
    if result.last:
        print(
            f"training loss {result.last['loss']:.4f} (last "
            f"{options.iterations} steps or fewer); ln(vocabulary) "
            f"{math.log(manifest.vocab_size):.4f}, unigram entropy "
            f"{manifest.unigram_entropy:.4f}"
        )
    if len(result.evaluations) > 1:
        (first, before), (last, after) = (
            result.evaluations[0],
            result.evaluations[-1],
        )
        print(
            f"held-out perplexity {before['perplexity']:.2f} at step {first}, "
            f"{after['perplexity']:.2f} at step {last}"
        )
    if spiece is None:
        return
    folder = options.model_dir.rstrip("/")
    command = [
        *("python", "run_classifier.py", "--task_name=tsv"),
        f"--data_dir={folder}-task",
        f"--init_checkpoint={options.model_dir}",
        f"--spiece_model_file={os.path.join(options.model_dir, SPIECE_NAME)}",
        f"--model_dir={folder}-classifier",
        f"--max_seq_length={min(manifest.seq_len, 128)}",
        *("--train_steps=200", "--do_train", "--do_eval"),
    ]
    print(
        f"with train.tsv and dev.tsv (a header, text, label) in {folder}-task\n"
        f"next: {shlex.join(command)}"
    )


if __name__ == "__main__":
    pretrain_flags.define()
    app.run(main)
