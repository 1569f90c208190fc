"""What run_classifier.py, run_squad.py and run_race.py share.

A task gives a `Job`: its head, its splits and how results are judged and
written. `run` trains, evaluates, predicts and exports it, in this order.
"""

import dataclasses
import os
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from common import files, vocabulary
from common.errors import UserError
from common.text_settings import TextChoice, TextSettings
from data import task_spec
from data.finetuning import task_settings
from data.task_spec import FILE_NAME, SPIECE_NAME, TaskSpec
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    config_file_in,
    config_file_names,
    read_config,
)
from training import loop
from training.finetuning import preflight
from training.finetuning.options import FinetuneOptions
from training.objectives import build as heads
from training.options import RunOptions
from training.reporting.evaluation import EvalResult

Outputs = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class EvalSplit:
    """A labelled split.

    Attributes:
      input_fn: every example once.
      metrics: outputs and labels in input order -> name -> value.
      write: outputs, folder -> paths that were written; or None.
      calibrate: outputs -> `data_options` found on them, which the folder's
        task.json and the export keep (a threshold); called before `write`.
    """

    input_fn: Callable
    metrics: Callable[[Outputs, Outputs], dict[str, float]]
    write: Callable[[Outputs, str], list[str]] | None = None
    calibrate: Callable[[Outputs], dict] | None = None


@dataclasses.dataclass(frozen=True)
class PredictSplit:
    """A split to predict: `write(outputs, folder)` returns the paths."""

    input_fn: Callable
    write: Callable[[Outputs, str], list[str]]


@dataclasses.dataclass(frozen=True)
class Job:
    """A task as `run` needs it.

    Attributes:
      spec: written to `model_dir` as task.json.
      spiece_path: copied beside it.
      vocab_size: of that file.
      main_metric: picks the best checkpoint; larger is better.
      train_input_fn: endless batches; None without training data.
      evals, predicts: split name -> split.
      must_match: what a resumed run may not change.
      objective_options: further keywords of `build_objective`.
      export_options: `data_options` of the export that task.json does not get.
    """

    spec: TaskSpec
    spiece_path: str
    vocab_size: int
    main_metric: str
    train_input_fn: Callable | None = None
    evals: dict[str, EvalSplit] = dataclasses.field(default_factory=dict)
    predicts: dict[str, PredictSplit] = dataclasses.field(default_factory=dict)
    must_match: dict = dataclasses.field(default_factory=dict)
    objective_options: dict = dataclasses.field(default_factory=dict)
    export_options: dict = dataclasses.field(default_factory=dict)


def find_config(options: FinetuneOptions, vocab_size: int) -> EncoderConfig:
    """--model_config_path, or the config beside the checkpoint.

    Raises:
      UserError: there is none, or it is of another vocabulary.
    """
    run = options.run
    own = config_file_in(run.model_dir)
    trained = not options.do_train and read_spec(run.model_dir) is not None
    if options.model_config_path:
        config = read_config(options.model_config_path)
        source = options.model_config_path
    elif trained and not options.predict_ckpt and own:
        config, source = read_config(own), own
    elif run.init_checkpoint:
        config = checkpoints.find_config(run.init_checkpoint)
        source = run.init_checkpoint
    elif own:
        config, source = read_config(own), own
    else:
        raise UserError(
            "no architecture: give --init_checkpoint, --model_config_path, or "
            f"a --model_dir that holds {config_file_names()}"
        )
    if config.vocab_size != vocab_size:
        raise UserError(
            f"{source} is of a vocabulary of {config.vocab_size} pieces, the "
            f"SentencePiece file has {vocab_size}: give the file that the "
            "checkpoint was trained with"
        )
    return config.replace(**options.config_changes)


def _exists(path: str) -> bool:
    return tf.io.gfile.exists(path)


def read_spec(model_dir: str) -> TaskSpec | None:
    """task.json of an earlier run in `model_dir`, None without one."""
    if not _exists(os.path.join(model_dir, FILE_NAME)):
        return None
    return TaskSpec.read(model_dir)


def find_spiece(options: FinetuneOptions, given: str) -> str:
    """--spiece_model_file, or the copy in `model_dir` or by the checkpoint.

    Raises:
      UserError: none of them.
    """
    if given:
        return given
    beside = ""
    if options.run.init_checkpoint:
        source = checkpoints.resolve(options.run.init_checkpoint)
        path = os.path.join(source.folder, SPIECE_NAME)
        beside = path if tf.io.gfile.exists(path) else ""
    own = os.path.join(options.run.model_dir, SPIECE_NAME)
    found = own if tf.io.gfile.exists(own) else beside
    if not found:
        raise UserError(
            "no SentencePiece file: give --spiece_model_file (there is no "
            f"{SPIECE_NAME} in --model_dir or by --init_checkpoint)"
        )
    return found


def find_text(
    options: FinetuneOptions,
    spiece: str,
    said: TextChoice,
    say: Callable[[str], None] = print,
) -> TextSettings:
    """The text settings of the vocabulary, checked and said.

    Args:
      options: name the model's folder and the checkpoint's.
      spiece: what `find_spiece` gave.
      said: by flags.
      say: takes the line of the summary.

    Raises:
      UserError: the folder's or the checkpoint's model is of another
        vocabulary or of other text settings; or the flags differ.
    """
    folders = [options.run.model_dir]
    if options.run.init_checkpoint:
        folders.append(checkpoints.resolve(options.run.init_checkpoint).folder)
    found = vocabulary.read(spiece)
    settings = vocabulary.settle(found, said, *folders)
    say(f"text         {found.describe(settings)}")
    return settings


def run(
    job: Job,
    options: FinetuneOptions,
    export: Callable[..., str] | None = None,
    flags: dict | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, dict[str, float]]:
    """Trains, evaluates, predicts and exports, as the options ask.

    Args:
      job: the task.
      options: what to do.
      export: `serving.export.export_model`.
      flags: for `run.json`.
      say: takes every line of the report.

    Returns:
      Split -> metrics of the evaluation; empty without one.

    Raises:
      UserError: anything the user can put right.
    """
    preflight.check_splits(job, options)
    if not options.do_train:
        _check_trained(job, options)
    config = find_config(options, job.vocab_size)
    preflight.check_disk(options, config)
    objective = heads.build_objective(
        job.spec.head,
        config,
        recompute_layers=options.recompute_layers,
        **job.spec.head_options,
        **job.objective_options,
    )
    model = None
    if options.do_train:
        model = _train(job, options, objective, flags, say)
        if model is None:
            return {}  # stopped on request; the same command goes on
    checkpoint = options.predict_ckpt or None
    if options.eval_all_ckpt:
        checkpoint = _best_of_all(job, objective, options, say)
    if checkpoint or options.run.optimizer.ema_decay or _has_best(options.run):
        model = None
    results, found = {}, {}
    if options.do_eval:
        results, found = _evaluate(
            job, options, objective, checkpoint, model, say
        )
    if options.do_predict:
        _predict(job, options, objective, checkpoint, model, say)
    if options.do_export:
        if export is None:
            raise ValueError("`export` must be given for do_export")
        job = _with_data_options(job, found | job.export_options)
        _export(job, options, objective, checkpoint, export, say)
    return results


def _train(job, options, objective, flags, say):
    """The trained model, or None when it was stopped before the end."""
    run_options = options.run
    earlier = read_spec(run_options.model_dir)
    if earlier is not None:
        _check_same_task(earlier, job.spec, run_options.model_dir)
    tf.io.gfile.makedirs(run_options.model_dir)
    _write_task(job, run_options.model_dir)
    eval_split = next(iter(job.evals.values()), None)
    if run_options.eval_every and eval_split is not None:
        run_options = run_options.replace(best_metric=job.main_metric)
    result = loop.train(
        objective,
        job.train_input_fn,
        run_options,
        eval_input_fn=eval_split.input_fn
        if eval_split and run_options.eval_every
        else None,
        metric_fn=_metric_fn(eval_split) if eval_split else None,
        must_match=job.must_match,
        flags=flags,
        say=say,
    )
    return result.model if result.finished else None


def _has_best(run_options: RunOptions) -> bool:
    best = os.path.join(run_options.model_dir, loop.checkpoints.BEST)
    return tf.train.latest_checkpoint(best) is not None


def _check_trained(job: Job, options: FinetuneOptions) -> None:
    """The job asks nothing of a trained model that it was not trained for."""
    run_options = options.run
    for path in (
        options.predict_ckpt,
        run_options.model_dir,
        run_options.init_checkpoint,
    ):
        folder = task_spec.find_folder(path) if path else None
        if folder:
            path = os.path.join(folder, FILE_NAME)
            task_settings.check_trained(TaskSpec.read(folder), job.spec, path)
            return


def _with_data_options(job: Job, found: dict) -> Job:
    data_options = job.spec.data_options | found
    spec = dataclasses.replace(job.spec, data_options=data_options)
    return dataclasses.replace(job, spec=spec)


def _check_same_task(earlier: TaskSpec, wanted: TaskSpec, model_dir: str):
    wrong = [
        f"`{s.name}` wanted {task_settings.shown(s.read(wanted))}, found "
        f"{task_settings.shown(s.read(earlier))}"
        for s in task_settings.differing(earlier, wanted)
    ]
    for name in ("task_name", "head", "spiece_sha256"):
        ours, theirs = getattr(wanted, name), getattr(earlier, name)
        if ours != theirs:
            wrong.append(f"`{name}` wanted {ours}, found {theirs}")
    if wrong:
        raise UserError(
            f"{os.path.join(model_dir, FILE_NAME)} is of another task: "
            f"{'; '.join(wrong)}; use another --model_dir"
        )


def _write_task(job: Job, model_dir: str) -> None:
    vocabulary.copy(vocabulary.read(job.spiece_path), job.spec.text, model_dir)
    job.spec.write(model_dir)


def _metric_fn(split: EvalSplit):
    def metric_fn(result: EvalResult) -> dict[str, float]:
        return split.metrics(result.predictions, result.labels)

    return metric_fn


def _evaluate(job, options, objective, checkpoint, model, say):
    """Metrics of every labelled split, and what they say about the task.

    Both are printed and written: `eval_<split>.json` and task.json.
    """
    results, found = {}, {}
    for name, split in job.evals.items():
        result = loop.evaluate(
            objective,
            split.input_fn,
            options.run,
            _metric_fn(split),
            checkpoint,
            model,
        )
        if split.calibrate:
            found |= split.calibrate(result.predictions)
        metrics = {k: float(v) for k, v in result.metrics.items()}
        results[name] = metrics
        say(f"{job.spec.task_name} {name}: {_shown(metrics)}")
        folder = options.predict_dir or os.path.join(
            options.run.model_dir, "predictions"
        )
        tf.io.gfile.makedirs(folder)
        path = os.path.join(options.run.model_dir, f"eval_{name}.json")
        files.write_json(path, metrics)
        if split.write:
            for path in split.write(result.predictions, folder):
                say(f"wrote {path}")
    earlier = read_spec(options.run.model_dir)
    if found and earlier is not None and not options.predict_ckpt:
        data_options = earlier.data_options | found
        dataclasses.replace(earlier, data_options=data_options).write(
            options.run.model_dir
        )
    return results, found


def _shown(metrics: dict[str, float]) -> str:
    return "  ".join(f"{k} {v:.5g}" for k, v in sorted(metrics.items()))


def _predict(job, options, objective, checkpoint, model, say) -> None:
    folder = options.predict_dir or os.path.join(
        options.run.model_dir, "predictions"
    )
    tf.io.gfile.makedirs(folder)
    run_options = options.run
    if options.predict_batch_size:
        run_options = run_options.replace(
            eval_batch_size=options.predict_batch_size
        )
    for split in job.predicts.values():
        outputs = loop.predict(
            objective, split.input_fn, run_options, checkpoint, model
        )
        for path in split.write(outputs, folder):
            say(f"wrote {path}")


def _best_of_all(job, objective, options, say) -> str:
    """The checkpoint of `model_dir` with the best dev metric."""
    state = tf.train.get_checkpoint_state(options.run.model_dir)
    paths = list(state.all_model_checkpoint_paths) if state else []
    if not paths:
        raise UserError(f"{options.run.model_dir} holds no checkpoint")
    name, split = next(iter(job.evals.items()))
    scores = {}
    for path in paths:
        result = loop.evaluate(
            objective,
            split.input_fn,
            options.run,
            _metric_fn(split),
            path,
        )
        scores[path] = result.metrics[job.main_metric]
        say(
            f"{os.path.basename(path)} {name}: {job.main_metric} "
            f"{scores[path]:.5g}"
        )
    best = max(paths, key=lambda p: scores[p])  # the first of equals
    say(f"best of {len(paths)}: {best} ({job.main_metric} {scores[best]:.5g})")
    files.write_json(
        os.path.join(options.run.model_dir, "eval_all_ckpt.json"),
        {
            "metric": job.main_metric,
            "split": name,
            "scores": {os.path.basename(p): s for p, s in scores.items()},
            "best": os.path.basename(best),
        },
    )
    return best


def _export(job, options, objective, checkpoint, export, say) -> None:
    """A SavedModel of the evaluated weights, in float32 on one device."""
    path = checkpoint or loop.checkpoints.checkpoint_to_read(options.run)
    policy = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy("float32")
    try:
        model = objective.build_model()
        checkpoints.restore(model, path, require="all")
        folder = options.export_dir or os.path.join(
            options.run.model_dir, "export"
        )
        say(f"exported {export(folder, model, job.spec, job.spiece_path)}")
    finally:
        tf_keras.mixed_precision.set_global_policy(policy)
