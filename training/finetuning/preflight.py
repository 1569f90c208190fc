"""What a fine-tuning run needs at its end, looked at before its first step.

Splits, checkpoints, folders and disk: hours of training are not lost for a
missing file. Nothing is written here.
"""

import os
import shutil
import tempfile

import tensorflow as tf

from common import files
from common.contract.symbols import (
    CLS_LAST,
    has_one_segment,
    is_cls_first,
)
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.weights.weights_line import BEST
from data.finetuning.task import Task
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.folder import whole
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    build_encoder,
    require_length,
    spec_of,
)
from training import strategy
from training.checkpointing.checkpoints import PREFIX, weights_to_read
from training.finetuning.options import FinetuneOptions
from training.finetuning.outputs import prediction_folder
from training.objectives.contract import Objective
from training.step.batch_split import BatchSplit

MIB = 1 << 20
# Texts of a row where the task does not say.
_TEXTS = {"span": 2, "multiple_choice": 2}


def check_places(options: FinetuneOptions) -> None:
    """Folders can be written, checkpoints that are named are there.

    Call it before any text is read.
    """
    run = options.run
    if not options.ensemble:  # members are read, see `check_outputs`
        check_outputs(options)
    if run.init_checkpoint:
        checkpoints.resolve(run.init_checkpoint)
    if options.predict_ckpt and not _will_be_made(options):
        checkpoints.resolve(options.predict_ckpt)
    if not options.do_train and not options.predict_ckpt:
        weights_to_read(run)
    reads = options.do_eval or options.do_predict or options.do_export
    keeps = run.eval_every or not options.do_train or options.predict_ckpt
    if reads and run.checkpoint_choice == BEST and not keeps:
        raise UserError(
            "--checkpoint_choice=best: a training without --eval_every keeps "
            "no best/; give --eval_every, or --checkpoint_choice=last"
        )


def check_outputs(options: FinetuneOptions) -> None:
    """Raises UserError: a folder that will be written cannot be."""
    for flag, folder in _outputs(options).items():
        _require_writable(flag, folder)


def _outputs(options: FinetuneOptions) -> dict[str, str]:
    """Flag -> folder that will be written."""
    run, predictions = options.run, prediction_folder(options)
    export = options.export_dir or os.path.join(run.model_dir, "export")
    # Predictions of one model leave its folder as it is.
    trains_or_tells = options.do_train or options.do_eval or options.ensemble
    wanted = {
        "model_dir": (run.model_dir, trains_or_tells),
        "predict_dir": (predictions, options.do_eval or options.do_predict),
        "export_dir": (export, options.do_export),
    }
    return {flag: folder for flag, (folder, used) in wanted.items() if used}


def _require_writable(flag: str, folder: str) -> None:
    if files.is_remote(folder):
        return  # a bucket says so at the first write only
    parent = _existing(folder)
    if not os.path.isdir(parent):
        raise UserError(
            f"--{flag}={folder} cannot be made: {parent} is not a folder"
        )
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as e:
        raise UserError(
            f"--{flag}={folder} cannot be written: {e.strerror} ({parent})"
        ) from e


def _existing(path: str) -> str:
    """The path itself, or the nearest parent that exists."""
    path = os.path.abspath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _will_be_made(options: FinetuneOptions) -> bool:
    """--predict_ckpt may name a checkpoint that this run saves."""
    home = os.path.abspath(options.run.model_dir)
    named = os.path.abspath(options.predict_ckpt)
    return options.do_train and named.startswith(home + os.sep)


def check_splits(task: Task, options: FinetuneOptions) -> None:
    """Every action has a split; UserError names one and what it lacks."""
    if options.do_train and task.train is None:
        raise UserError("--do_train: there is no training data")
    hint = "give a dev file, --dev_fraction=0.1 where there is none, or drop it"
    for flag, asked in (
        ("do_eval", options.do_eval),
        ("eval_every", options.run.eval_every and options.do_train),
        ("eval_all_ckpt", options.eval_all_ckpt),
    ):
        if asked and not task.evals:
            raise UserError(
                f"--{flag}: there is no labelled split to evaluate; {hint}"
            )
    if options.do_predict and not task.predicts:
        raise UserError("--do_predict: there is no split to predict")


def check_batches(options: FinetuneOptions, objective: Objective) -> None:
    """Batches of all that is done divide; UserError names the flag.

    It asks for the devices, which no other check of this module does.
    """
    replicas = strategy.setup(options.run.strategy).num_replicas_in_sync
    run, groups = options.run, objective.row_groups
    asked = []
    if options.do_train:
        rows, steps = run.train_batch_size, run.grad_accumulation_steps
        asked.append((rows, steps, groups, "train_batch_size"))
    if options.do_eval or (options.do_train and run.eval_every):
        asked.append((run.eval_batch_size, 1, groups, "eval_batch_size"))
    if options.do_predict:
        rows = options.predict_run.eval_batch_size
        name = "predict" if options.predict_batch_size else "eval"
        asked.append((rows, 1, groups, f"{name}_batch_size"))
    for rows, *more in asked:
        BatchSplit(rows, replicas, *more)


def check_metric(task: Task, objective) -> None:
    """The metric asked for is one that evaluations give; or UserError."""
    names = [*task.metric_names, *(["loss"] * objective.evaluates_loss)]
    if task.best_metric not in names:
        raise UserError(
            f"--best_metric must be one of {', '.join(names)} for "
            f"{task.spec().task_name}, received {task.best_metric!r}"
        )


def check_disk(options: FinetuneOptions, config: EncoderConfig) -> None:
    """The disk has room for the checkpoints and the export of this run.

    Raises UserError: wanted and found, by folder.
    """
    wanted: dict[str, int] = {}
    for flag, size in _bytes_to_write(options, config).items():
        folder = _outputs(options).get(flag)
        if folder and size and not files.is_remote(folder):
            parent = _existing(folder)
            wanted[parent] = wanted.get(parent, 0) + size
    for parent, size in wanted.items():
        free = shutil.disk_usage(parent).free
        if free < size:
            raise UserError(
                f"{parent}: wanted about {size / MIB:.0f} MiB for checkpoints "
                f"and export, found {free / MIB:.0f} MiB free; free some "
                "space, lower --max_save or give another --model_dir"
            )


def check_segments(spec: TaskSpec, config: EncoderConfig) -> None:
    """The encoder can tell the rows' texts apart, and rows fit its positions.

    Raises UserError: rows in another order than the encoder's, more texts than
    segments, or longer rows than positions.
    """
    wanted = spec_of(config.model_type).capabilities.layout
    layout = spec.data_options.get("layout", CLS_LAST)
    if is_cls_first(layout) != is_cls_first(wanted):
        raise UserError(
            f"{config.model_type} reads rows in the layout {wanted}, found "
            f"{layout} for {spec.task_name}: take an encoder of that layout"
        )
    kinds = getattr(config, "type_vocab_size", None)
    texts = int(spec.data_options.get("num_texts", 1))
    if has_one_segment(layout):
        kinds = None
    if kinds is not None and max(texts, _TEXTS.get(spec.head, 1)) > kinds:
        raise UserError(
            f"{config.model_type} distinguishes {kinds} segments "
            f"(type_vocab_size), found {texts} texts per row; name fewer with "
            "--text_columns, or take xlnet or modernbert"
        )
    require_length(config, spec.max_seq_length)


def _bytes_to_write(
    options: FinetuneOptions, config: EncoderConfig
) -> dict[str, int]:
    """Flag of a folder -> bytes that this run may add to it."""
    run = options.run
    if not options.do_train and not options.do_export:
        return {}
    weights = 4 * encoder_weights(config)
    sizes = {"export_dir": weights if options.do_export else 0}
    if not options.do_train:
        return sizes
    kept = run.train_steps // run.save_steps + 1 if run.save_steps else 1
    if run.max_save:
        kept = min(kept, run.max_save + 1)  # the oldest goes after the newest
    there = len(whole(run.model_dir, PREFIX))
    copies = 4 if run.optimizer.averages else 3  # weights and two slots
    best = 2 * weights if run.eval_every else 0
    sizes["model_dir"] = max(0, kept - there) * copies * weights + best
    return sizes


def encoder_weights(config: EncoderConfig) -> int:
    """Parameters of the encoder, counted in a graph that is thrown away."""
    with tf.Graph().as_default():
        variables = build_encoder(config).variables
        return sum(v.shape.num_elements() for v in variables)
