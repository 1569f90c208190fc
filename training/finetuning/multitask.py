"""One encoder trained on several tasks by turns, then a folder for each.

Batches alternate between the tasks (`data.finetuning.features.mixing`); losses, metrics
and files of a task are those of `run_classifier.py`. What was trained is
written as single-task folders, `MODEL_DIR/tasks/NAME`, which every command
takes; evaluation, prediction and export are theirs.
"""

import contextlib
import dataclasses
import functools
import os
import statistics

import numpy as np
import tensorflow as tf

from common import files, locks
from common.contract import task_spec
from common.errors import UserError
from common.vocabularies import vocabulary
from common.weights.weights_line import AUTO
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.features.mixing import BLOCK, MixedBatches, TaskOrder
from data.finetuning.task import EVAL
from modeling.checkpoints import native, restore
from modeling.checkpoints.folder import HINT, INDEX, newest_prefix
from training import loop, strategy
from training.checkpointing.checkpoints import PREFIX, weights_to_read
from training.finetuning import driver, outputs, preflight
from training.finetuning.options import (
    LOWER_IS_BETTER,
    TASKS,
    FinetuneOptions,
    MultiTaskOptions,
)
from training.finetuning.sources import find_config
from training.objectives import build as heads
from training.objectives.multi_task import MultiTaskObjective, TaskPart
from training.optim import tuning_rates
from training.reporting.evaluation import EvalResult, Evaluator

MEAN = "mean"
_NEW = ".new"  # of a task's folder: a model until it is whole
RESULTS = "multitask.json"


# Name of each task -> the task, its splits loaded.
Tasks = dict[str, ClassifierTask]


def task_folder(model_dir: str, name: str) -> str:
    """Where the single-task model of a task is."""
    return os.path.join(model_dir, TASKS, name)


def run(
    tasks: Tasks,
    settings: MultiTaskOptions,
    options: FinetuneOptions,
    export=None,
    flags: dict | None = None,
    say=print,
) -> dict[str, dict[str, dict[str, float]]]:
    """Trains all tasks, then evaluates, predicts and exports each.

    Returns task -> split -> metrics; empty without an evaluation.
    """
    if not outputs.writes(options):
        say = outputs.silent
    rows = sum(train_rows(task) for task in tasks.values())
    options = driver.settle_steps(rows, options, say)
    home = options.run.model_dir
    # The run's folder is this process' own while it trains there.
    trains = options.do_train and outputs.writes(options)
    with locks.held(home) if trains else contextlib.nullcontext():
        if options.do_train:
            objective = build_objective(tasks, settings, options)
            _train(tasks, settings, options, objective, flags, say)
            split_heads(tasks, options, objective, say)
            # The tasks' folders are there for every process.
            strategy.wait_for_all(options.run.strategy)
        results = {}
        more = options.do_eval or options.do_predict or options.do_export
        if more:
            require_trained(tasks, home)
        for name, task in tasks.items() if more else ():
            settled = _own_options(name, options)
            for line in driver.check_trained(task.spec(), settled):
                say(line)
            scores = driver.Driver(task, settled, export, flags, say).run()
            if scores:
                results[name] = scores
    if results and outputs.writes(options):
        mean = statistics.fmean(
            next(iter(results[name].values()))[task.best_metric]
            for name, task in tasks.items()
        )
        say(f"{MEAN} of the tasks' main metrics: {mean:.5g}")
        path = os.path.join(home, RESULTS)
        files.write_json(path, {"tasks": results, MEAN: mean})
    return results


def require_trained(tasks: Tasks, home: str) -> None:
    """Raises UserError: a task has no model; names the first one."""
    for name in tasks:
        folder = task_folder(home, name)
        if newest_prefix(folder) is None:
            raise UserError(
                f"{folder} holds no model of {name}: give --do_train, or a "
                "--model_dir and --task_name of tasks that were trained together"
            )


def _own_options(name: str, options: FinetuneOptions) -> FinetuneOptions:
    """What is done with the single-task folder."""
    home = options.run.model_dir
    changes = {
        flag: os.path.join(folder, name)
        for flag in ("predict_dir", "export_dir")
        if (folder := getattr(options, flag))
    }
    task_run = options.run.replace(
        model_dir=task_folder(home, name),
        init_checkpoint=None,
        checkpoint_choice=AUTO,  # `split_heads` chose; there is one model
        eval_every=0,
        patience=0,
    )
    return dataclasses.replace(
        options, run=task_run, do_train=False, train_epochs=0.0, **changes
    )


def train_rows(task: ClassifierTask) -> int:
    """Training examples that were loaded."""
    return task.train.table.num_examples if task.train else 0


def build_objective(
    tasks: Tasks, settings: MultiTaskOptions, options: FinetuneOptions
) -> MultiTaskObjective:
    """The objective of all tasks, with everything checked that it stands on."""
    if options.pack:
        raise UserError(
            "--pack: batches of several tasks are not packed; leave it out"
        )
    first = next(iter(tasks.values()))
    config = find_config(options, first.tokenizer.vocab_size)
    preflight.check_disk(options, config)
    parts = []
    for (name, task), length, weight in zip(
        tasks.items(), settings.lengths, settings.weights, strict=True
    ):
        spec = task.spec()
        if spec.head not in ("classification", "regression"):
            raise UserError(
                f"run_multitask.py takes classes and values, {name} is of "
                f"the head {spec.head}"
            )
        preflight.check_splits(task, options)
        preflight.check_segments(spec, config)
        single = heads.build_objective(
            spec.head,
            config,
            recompute_layers=options.recompute_layers,
            **spec.head_options,
        )
        parts.append(TaskPart(name, single, length, weight))
    _check_best_metric(tasks, parts, options.best_metric)
    return MultiTaskObjective(config, parts, options.recompute_layers)


def _check_best_metric(tasks, parts: list[TaskPart], wanted: str) -> None:
    """--best_metric is a number that the evaluations of all tasks give."""
    names = [MEAN]
    for task, part in zip(tasks.values(), parts, strict=True):
        known = task.set.metric_names
        if task.set.head == "regression":
            known = task.metric_names
        known = [*known, *(["loss"] * part.objective.evaluates_loss)]
        names += [f"{part.name}/{name}" for name in known]
    if wanted and wanted not in names:
        raise UserError(
            f"--best_metric must be one of {', '.join(names)} for "
            f"run_multitask.py, received {wanted!r}"
        )


def mixed_batches(
    tasks: Tasks, settings: MultiTaskOptions, options: FinetuneOptions
) -> MixedBatches:
    """The training batches of all tasks."""
    tables = [task.train.table for task in tasks.values()]
    seed = options.run.strategy.seed
    order = TaskOrder(
        tuple(table.num_examples for table in tables),
        settings.mixing,
        settings.temperature,
        seed,
    )
    features = next(iter(tasks.values())).features
    # A program of XLA has a branch per task, each with a length of its own.
    static = features.static_shapes or options.run.strategy.jit_compile
    return MixedBatches(tables, settings.lengths, order, seed, static)


def _train(tasks, settings, options, objective, flags, say) -> None:
    """Trains to the end. Raises Stopped: it was stopped on request."""
    home, first = options.run.model_dir, next(iter(tasks.values()))
    preflight.check_batches(options, objective)
    spec = first.spec()
    tuning_rates.say_if_low(
        options.run.optimizer.learning_rate, objective.config.d_model, say
    )
    batches = mixed_batches(tasks, settings, options)
    counts = batches.order.counts()
    for (name, task), count in zip(tasks.items(), counts, strict=True):
        say(
            f"task         {name}: {train_rows(task)} examples, "
            f"{count / BLOCK:.1%} of the steps"
        )
    if outputs.writes(options):
        _prepare_folders(tasks, home)
        tf.io.gfile.makedirs(home)
        read = vocabulary.read(first.features.spiece_model_file)
        vocabulary.copy(read, spec.text, home)
    run_options, make, should_match = options.run, None, None
    if run_options.eval_every:
        best = options.best_metric or MEAN
        run_options = run_options.replace(
            best_metric=best,
            best_higher=best.rpartition("/")[-1] not in LOWER_IS_BETTER,
        )
        make = _evaluators(tasks, objective)
        dev_data = [task.should_match()["dev_data"] for task in tasks.values()]
        should_match = {"dev_data": dev_data}
    loop.train(
        objective,
        batches.input_fn,
        run_options,
        make_evaluator=make,
        must_match={
            "spiece_sha256": spec.spiece_sha256,
            "text_settings": spec.text.as_dict(),
            "train_data": [
                task.must_match()["train_data"] for task in tasks.values()
            ],
        }
        | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(settings).items()
            if name not in ("schedule", "task_steps")
        },
        should_match=should_match,
        flags=flags,
        say=say,
    ).or_stop()


def _evaluators(tasks: Tasks, objective: MultiTaskObjective):
    """Run -> an evaluation of every task, and the mean of what they count by."""

    def make(run) -> _Together:
        learner = run.learner
        evaluators = {}
        for (name, task), part in zip(
            tasks.items(), objective.parts, strict=True
        ):
            split = next(iter(task.evals))
            evaluators[name] = (
                task.best_metric,
                Evaluator(
                    part.objective,
                    learner.model.heads[name],
                    learner.strategy,
                    task.batches(task.evals[split], EVAL),
                    run.options.eval_batch_size,
                    metric_fn=outputs.metric_fn(task, split),
                ),
            )
        return _Together(evaluators)

    return make


class _Together:
    """The evaluations of all tasks as one."""

    def __init__(self, evaluators: dict):
        self._evaluators = evaluators

    def run(self, steps: int = -1) -> EvalResult:
        """Metrics as `task/name`, and `mean`."""
        metrics, main = {}, []
        for task, (name, evaluator) in self._evaluators.items():
            task_metrics = evaluator.run(steps).metrics
            metrics |= {f"{task}/{k}": v for k, v in task_metrics.items()}
            main.append(task_metrics[name])
        metrics[MEAN] = statistics.fmean(main)
        return EvalResult(metrics, {}, {}, np.zeros([0], np.int64))


def _prepare_folders(tasks: Tasks, home: str) -> None:
    """What is in the tasks' folders is of this run, or of one that is gone.

    Weights of the latter go, so that none is taken for this run's. Raises
    UserError: a folder holds what `split_heads` did not write.
    """
    folders = [task_folder(home, name) for name in tasks]
    for folder in folders:
        strange = files.exists(folder) and (
            not files.is_folder(folder)
            or files.beginning_with(os.path.join(folder, PREFIX))
            or (files.list_names(folder) and not _is_tasks(folder))
        )
        if strange:
            raise UserError(
                f"{folder} is where a task's model is written, but holds what "
                "run_multitask.py did not write: move it, or give another "
                "--model_dir"
            )
    if not newest_prefix(home):
        for folder in folders:
            _remove_weights(folder)


def _is_tasks(folder: str) -> bool:
    return files.exists(os.path.join(folder, task_spec.FILE_NAME))


def _remove_weights(folder: str) -> None:
    """The index first: without it there is no checkpoint."""
    paths = files.beginning_with(os.path.join(folder, f"{native.PREFIX}-1."))
    for path in sorted(paths, key=lambda path: not path.endswith(INDEX)):
        tf.io.gfile.remove(path)
    hint = os.path.join(folder, HINT)
    if files.exists(hint):
        tf.io.gfile.remove(hint)


def split_heads(tasks, options: FinetuneOptions, objective, say) -> None:
    """Writes the best weights as one single-task folder per task.

    Of an earlier one of the same run the model is replaced. What evaluations,
    predictions and exports wrote there stays.
    """
    if not outputs.writes(options):
        return
    model = objective.build_model()
    source = weights_to_read(options.run)
    say(source.line)
    restore.restore(model, source, require="all")
    for name, task in tasks.items():
        folder = task_folder(options.run.model_dir, name)
        earlier = _is_tasks(folder)
        new = os.path.join(folder, _NEW) if earlier else folder
        if earlier and files.exists(new):
            tf.io.gfile.rmtree(new)
        native.write(
            new,
            model.heads[name],
            objective.saved_config,
            functools.partial(driver.write_task, task, task.spec()),
        )
        if earlier:
            _replace_model(folder, new)
        say(f"wrote {folder}")


def _replace_model(folder: str, new: str) -> None:
    """Moves the files of `new` into `folder`, the checkpoint's index last."""
    _remove_weights(folder)
    names = files.list_names(new)
    for name in sorted(names, key=lambda name: name.endswith(INDEX)):
        path = os.path.join(folder, name)
        tf.io.gfile.rename(os.path.join(new, name), path, overwrite=True)
    tf.io.gfile.rmtree(new)
