"""What all fine-tuning commands share.

A task gives a `Job`: its head, its splits and how results are judged and
written. `run` trains, evaluates, predicts and exports it, in this order.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from common import files, locks, vocabulary
from common.errors import UserError
from data import task_spec
from data.finetuning import task_settings, thresholds
from data.task_spec import FILE_NAME, TaskSpec
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import weights
from modeling.models.half_precision import in_bfloat16
from training import loop, strategy
from training.finetuning import (
    dry_run,
    head_start,
    length_slices,
    preflight,
)
from training.finetuning.all_checkpoints import best_of_all, metric_fn
from training.finetuning.job import (
    Job,
    with_data_options,
    with_kept_threshold,
    with_threshold_of,
)
from training.finetuning.options import LOWER_IS_BETTER, FinetuneOptions
from training.finetuning.sources import find_config, read_spec, weights_of
from training.objectives import build as heads


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
    if not writes(options):
        say = silent
    options = settle_steps(job, options, say)
    objective = build_objective(job, options)
    if options.dry_run:
        if options.do_train:
            check_same_task(job, options.run.model_dir)
        dry_run.check(job, options, objective, say)
        return {}
    with outputs_held(options):
        return _run(job, options, objective, export, flags, say)


def build_objective(job: Job, options: FinetuneOptions):
    """The objective of a job, with everything checked that it stands on.

    Raises:
      UserError: anything the user can put right.
    """
    preflight.check_splits(job, options)
    if not options.do_train:
        check_trained(job, options)
    config = find_config(options, job.vocab_size, job.spiece_path)
    preflight.check_segments(job, config)
    preflight.check_disk(options, config)
    objective = heads.build_objective(
        job.spec.head,
        config,
        recompute_layers=options.recompute_layers,
        pack=options.pack,
        **job.spec.head_options,
        **job.objective_options,
    )
    preflight.check_metric(job, objective)
    return objective


def settle_steps(job: Job, options: FinetuneOptions, say) -> FinetuneOptions:
    """`train_epochs` as `train_steps`.

    Raises:
      UserError: the warm-up is as long as the run.
    """
    if not options.train_epochs or not options.do_train:
        return options
    rows, batch = job.train_rows, options.run.train_batch_size
    steps = max(1, math.ceil(options.train_epochs * rows / batch))
    say(
        f"epochs       {options.train_epochs:g} of {rows} examples in batches "
        f"of {batch} = --train_steps={steps}"
    )
    run_options = options.run.replace(train_steps=steps)
    return dataclasses.replace(options, run=run_options)


def writes(options: FinetuneOptions) -> bool:
    """Whether this process writes files and lines; one of a run does."""
    return strategy.may_write(options.run.strategy)


def silent(line: str) -> None:
    """`say` of the processes that do not write."""


@contextlib.contextmanager
def outputs_held(options: FinetuneOptions):
    """The folders that are written are this process' own.

    An evaluation beside a training is none of its business: it writes its own
    files. Exports hold their folder themselves.
    """
    with contextlib.ExitStack() as stack:
        if writes(options):
            if options.do_train:
                stack.enter_context(locks.held(options.run.model_dir))
            if options.do_eval or options.do_predict:
                stack.enter_context(locks.held(prediction_folder(options)))
        yield


def prediction_folder(options: FinetuneOptions) -> str:
    """Where predictions and reports go."""
    return options.predict_dir or os.path.join(
        options.run.model_dir, "predictions"
    )


def _run(job, options, objective, export, flags, say):
    """`run`, with everything checked."""
    model = newest = None
    home = options.run.model_dir
    if options.do_train:
        check_same_task(job, home)
        # Without a checkpoint what is there is a dead run's.
        if checkpoint_folder.newest_prefix(home):
            job = with_kept_threshold(job, read_spec(home))
        model = _train(job, options, objective, flags, say)
        if model is None:
            return {}  # stopped on request; the same command goes on
        newest = checkpoint_folder.newest_prefix(home)
    if not (options.do_eval or options.do_predict or options.do_export):
        return {}
    if options.eval_all_ckpt:
        checkpoint = best_of_all(job, objective, options, say)
    else:
        checkpoint = weights_of(options)
    say(checkpoint.line)
    folder = task_spec.find_folder(checkpoint.path) or home
    job = with_threshold_of(job, folder, checkpoint.path, say)
    if checkpoint.path != newest or options.run.optimizer.averages:
        model = None
    results, found = {}, {}
    if options.do_eval:
        results, found = _evaluate(
            job, options, objective, checkpoint, model, say
        )
    if options.do_predict:
        _predict(job, options, objective, checkpoint, model, say)
    if options.do_export and writes(options):
        if export is None:
            raise ValueError("`export` must be given for do_export")
        job = with_data_options(job, found | job.export_options)
        _export(job, options, objective, checkpoint, export, say)
    return results


def _train(job, options, objective, flags, say):
    """The trained model, or None when it was stopped before the end."""
    run_options = options.run
    start = None
    if options.init_head:
        start = head_start.head_start(
            options.init_head,
            job.spec,
            run_options.init_checkpoint,
            run_options.checkpoint_choice,
        )
    if writes(options):
        tf.io.gfile.makedirs(run_options.model_dir)
        _write_task(job, run_options.model_dir)
    eval_split = next(iter(job.evals.values()), None)
    if run_options.eval_every and eval_split is not None:
        run_options = run_options.replace(
            best_metric=job.main_metric,
            best_higher=job.main_metric not in LOWER_IS_BETTER,
        )
    result = loop.train(
        objective,
        job.train_input_fn,
        run_options,
        eval_input_fn=eval_split.input_fn
        if eval_split and run_options.eval_every
        else None,
        metric_fn=metric_fn(eval_split) if eval_split else None,
        warm_start=start,
        must_match=job.must_match,
        flags=flags,
        say=say,
    )
    return result.model if result.finished else None


def check_trained(job: Job, options: FinetuneOptions) -> list[str]:
    """Notes about what the job has otherwise than the trained model.

    Raises:
      UserError: it asks what the model was not trained for.
    """
    run_options = options.run
    for path in (
        options.predict_ckpt,
        run_options.model_dir,
        run_options.init_checkpoint,
    ):
        folder = task_spec.find_folder(path) if path else None
        if folder:
            path = os.path.join(folder, FILE_NAME)
            found = TaskSpec.read(folder)
            return task_settings.check_trained(found, job.spec, path)
    return []


def check_same_task(job: Job, model_dir: str) -> None:
    """The folder holds no model of another task.

    Raises:
      UserError: it does; lists what differs.
    """
    earlier, wanted = read_spec(model_dir), job.spec
    if earlier is None:
        return
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


def _evaluate(job, options, objective, checkpoint, model, say):
    """Metrics of every labelled split, and what they say about the task.

    Both are printed and written: `eval_<split>.json` and task.json.
    """
    results, found = {}, {}
    home = options.run.model_dir
    own_name = weights.name_in(home, checkpoint.path)
    for name, split in job.evals.items():
        result = loop.evaluate(
            objective,
            split.input_fn,
            options.run,
            metric_fn(split),
            checkpoint,
            model,
        )
        if split.calibrate:
            found |= split.calibrate(result.predictions, result.labels)
        results[name] = report(
            job,
            options,
            name,
            result.metrics,
            result.predictions,
            say,
            own_name,
        )
    earlier = read_spec(home)
    kept = writes(options) and not options.predict_ckpt
    if found and earlier is not None and kept:
        found_so_far = thresholds.of(earlier) | found
        thresholds.replace(earlier, found_so_far, own_name).write(home)
    return results, found


def report(
    job, options, name, metrics, outputs, say, checkpoint: str = ""
) -> dict[str, float]:
    """Says and writes what an evaluation of a split found.

    Args:
      job: has the split.
      options: name the folders.
      name: of the split.
      metrics: name -> number.
      outputs: of every example, for the split's files.
      say: takes the lines.
      checkpoint: name in the folder of the weights; "" = an ensemble's.

    Returns:
      The metrics as plain numbers.
    """
    metrics = {k: float(v) for k, v in metrics.items()}
    if not writes(options):
        return metrics
    say(f"{job.spec.task_name} {name}: {shown(metrics)}")
    folder = prediction_folder(options)
    tf.io.gfile.makedirs(folder)
    path = os.path.join(options.run.model_dir, f"eval_{name}.json")
    about = {"checkpoint": checkpoint} if checkpoint else {}
    for line in _better_before(path, job.main_metric, metrics, checkpoint):
        say(line)
    files.write_json(path, metrics | about)
    split = job.evals[name]
    if options.slice_by_length:
        rows = length_slices.by_quartile(
            split.lengths, lambda part: split.part_metrics(outputs, part)
        )
        for line in length_slices.lines(rows):
            say(line)
        path = length_slices.write(options.run.model_dir, name, rows)
        say(f"wrote {path}")
    if split.write:
        for path in split.write(outputs, folder):
            say(f"wrote {path}")
    return metrics


def _better_before(path: str, metric: str, found: dict, name: str) -> list[str]:
    """A line where the file holds a better number of other weights."""
    if not files.exists(path):
        return []
    earlier = files.read_json_object(path, "move it away")
    old, whose = earlier.get(metric), earlier.get("checkpoint", name)
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    if whose == name or old is None or sign * old <= sign * found[metric]:
        return []
    return [
        f"note: {path} had {metric} {old:.5g} of {whose}, and has now "
        f"{found[metric]:.5g} of {name}"
    ]


def shown(metrics: dict[str, float]) -> str:
    """Metrics in a line."""
    return "  ".join(f"{k} {v:.5g}" for k, v in sorted(metrics.items()))


def _predict(job, options, objective, checkpoint, model, say) -> None:
    folder = prediction_folder(options)
    run_options = options.run
    if options.predict_batch_size:
        run_options = run_options.replace(
            eval_batch_size=options.predict_batch_size
        )
    for split in job.predicts.values():
        outputs = loop.predict(
            objective, split.input_fn, run_options, checkpoint, model
        )
        if writes(options):
            tf.io.gfile.makedirs(folder)
            for path in split.write(outputs, folder):
                say(f"wrote {path}")


def _export(job, options, objective, checkpoint, export, say) -> None:
    """A SavedModel of the evaluated weights, on one device."""
    policy = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy("float32")
    try:
        model = objective.build_model()
        checkpoints.restore(model, checkpoint, require="all")
        if options.export_precision != "float32":
            model = in_bfloat16(objective.build_model, model)
        folder = options.export_dir or os.path.join(
            options.run.model_dir, "export"
        )
        made = export(
            folder,
            model,
            job.spec,
            job.spiece_path,
            weights=checkpoints.description(checkpoint),
        )
        say(f"exported {made}")
    finally:
        tf_keras.mixed_precision.set_global_policy(policy)
