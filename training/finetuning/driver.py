"""Trains, evaluates, predicts and exports a task: what all commands share."""

import dataclasses
import math
import os
from collections.abc import Callable

import tensorflow as tf

from common import files
from common.contract import task_spec
from common.contract.task_spec import FILE_NAME, TaskSpec
from common.errors import UserError
from common.vocabularies import vocabulary
from data.finetuning import task_settings, thresholds
from data.finetuning.task import EVAL, PREDICT, TRAIN, Task
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import weights
from modeling.models.half_precision import to_export
from modeling.ops import graph_memory
from training import loop, strategy
from training.checkpointing.checkpoints import PREFIX
from training.finetuning import dry_run, head_start, outputs, preflight
from training.finetuning.options import LOWER_IS_BETTER, FinetuneOptions
from training.finetuning.outputs import metric_fn, writes
from training.finetuning.sources import find_config, read_spec, weights_of
from training.objectives import build as heads
from training.optim import tuning_rates
from training.run import TrainRequest, run_training

Results = dict[str, dict[str, float]]


class Driver:
    """One run of a task."""

    def __init__(
        self,
        task: Task,
        options: FinetuneOptions,
        export: Callable[..., str] | None = None,
        flags: dict | None = None,
        say: Callable[[str], None] = print,
    ):
        self.say = say if writes(options) else outputs.silent
        self.task, self.export, self.flags = task, export, flags
        rows = task.train.table.num_examples if task.train else 0
        self.options = settle_steps(rows, options, self.say)
        self.home = options.run.model_dir
        # task.json, with the thresholds of the weights that are read
        self.spec = task.spec()
        self.objective = build_objective(task, self.options)
        if options.do_train:
            rate = options.run.optimizer.learning_rate
            width = self.objective.config.d_model
            tuning_rates.say_if_low(rate, width, self.say)

    def run(self) -> Results:
        """Does what the options ask for; split -> metrics of the evaluation."""
        options = self.options
        preflight.check_batches(options, self.objective)
        if options.dry_run:
            start = self.head_start()
            if options.do_train:
                check_same_task(self.spec, self.home)
                self.request(start)  # what a training refuses
            dry_run.check(self.task, options, self.objective, self.say, start)
            return {}
        with outputs.held(options):
            model = newest = None
            if options.do_train:
                model = self.train()
                newest = checkpoint_folder.newest_prefix(self.home)
            results: Results = {}
            if options.do_eval or options.do_predict or options.do_export:
                results = self.use(model, newest)
        if options.do_eval or options.do_predict:
            # The first to leave would end the others in their work.
            strategy.wait_for_all(options.run.strategy)
        return results

    def train(self):
        """The trained model. Raises Stopped: it was stopped on request."""
        task, options = self.task, self.options
        check_same_task(self.spec, self.home)
        # Without a checkpoint what is there is a dead run's.
        if checkpoint_folder.newest_prefix(self.home):
            self.spec = thresholds.keep(self.spec, read_spec(self.home))
        request = self.request(self.head_start())
        if writes(options):
            tf.io.gfile.makedirs(self.home)
            write_task(task, self.spec, self.home)
        return run_training(request).or_stop().model

    def request(self, start: Callable | None) -> TrainRequest:
        """The training, whose new weights `start` changes.

        Raises UserError: it contradicts itself.
        """
        task, run = self.task, self.options.run
        eval_input = first = should_match = None
        if task.evals:
            first = next(iter(task.evals))
        if first and run.eval_every:
            metric = task.best_metric
            run = run.replace(
                best_metric=metric, best_higher=metric not in LOWER_IS_BETTER
            )
            eval_input = task.batches(task.evals[first], EVAL)
            should_match = task.should_match()
        return TrainRequest(
            self.objective,
            task.batches(task.train, TRAIN),
            run,
            eval_input_fn=eval_input,
            metric_fn=metric_fn(task, first) if first else None,
            warm_start=start,
            must_match=task.must_match(),
            should_match=should_match,
            flags=self.flags,
            say=self.say,
        )

    def head_start(self) -> Callable | None:
        """What gives the new head its values, if `init_head` asks for it."""
        options, run = self.options, self.options.run
        if not (options.do_train and options.init_head):
            return None
        return head_start.head_start(
            options.init_head,
            self.spec,
            run.init_checkpoint,
            run.checkpoint_choice,
        )

    def use(self, model, newest: str | None) -> Results:
        """Evaluates, predicts and exports with the weights of the options.

        They have been trained by now in `model`, unless it is None; `newest` is
        its checkpoint.
        """
        options, calibrated = self.options, {}
        results: Results = {}
        checkpoint = (
            self.best_of_all() if options.eval_all_ckpt else weights_of(options)
        )
        self.say(checkpoint.line)
        folder = task_spec.find_folder(checkpoint.path) or self.home
        self.spec = with_threshold_of(
            self.task, self.spec, folder, checkpoint.path, self.say
        )
        if checkpoint.path != newest or options.run.optimizer.averages:
            model = None
        if options.do_eval:
            results, calibrated = self.evaluate(checkpoint, model)
        if options.do_predict:
            self.predict(checkpoint, model)
        if options.do_export and writes(options):
            self.write_export(
                checkpoint, calibrated | self.task.export_options()
            )
        return results

    def best_of_all(self) -> checkpoints.Source:
        """The checkpoint with the best metric, of `best/` and all others."""
        paths = checkpoint_folder.whole(self.home, PREFIX)
        if kept := weights.read_best(self.home):
            paths = [kept.path, *paths]
        if not paths:
            raise UserError(f"{self.home} holds no checkpoint")
        name, metric = next(iter(self.task.evals)), self.task.best_metric
        scores = {}
        for path in paths:
            with graph_memory.released():
                result = self._evaluated(name, path)
            # Without one tag that is known there is no loss.
            scores[path] = result.metrics.get(metric, math.nan)
            self.say(
                f"{weights.name_in(self.home, path)} {name}: {metric} "
                f"{scores[path]:.5g}"
            )
        # The first of equals; NaN is worse than any number.
        sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
        best = max(
            paths, key=lambda p: (scores[p] == scores[p], sign * scores[p])
        )
        report = {
            "metric": metric,
            "split": name,
            "scores": {
                weights.name_in(self.home, p): s for p, s in scores.items()
            },
            "best": weights.name_in(self.home, best),
        }
        if writes(self.options):
            path = os.path.join(self.home, "eval_all_ckpt.json")
            files.write_json(path, report)
        why = f"the best of {len(paths)} by {metric}, {scores[best]:.5g}"
        return dataclasses.replace(checkpoints.resolve(best), why=why)

    def _evaluated(self, name: str, checkpoint, model=None):
        task = self.task
        return loop.evaluate(
            self.objective,
            task.batches(task.evals[name], EVAL),
            self.options.run,
            metric_fn(task, name),
            checkpoint,
            model,
        )

    def evaluate(
        self, checkpoint: checkpoints.Source, model=None
    ) -> tuple[Results, dict]:
        """Metrics of every labelled split, and what they say about the task.

        Both are printed and written: `eval_<split>.json` and task.json.
        """
        results, calibrated = {}, {}
        task, options = self.task, self.options
        name_of_weights = weights.name_in(self.home, checkpoint.path)
        for name, split in task.evals.items():
            result = self._evaluated(name, checkpoint, model)
            if split.finds_threshold:
                calibrated |= task.calibrate(
                    split, result.predictions, result.labels
                )
            results[name] = outputs.report(
                task,
                options,
                name,
                result.metrics,
                result.predictions,
                self.say,
                name_of_weights,
            )
        earlier = read_spec(self.home)
        kept = writes(options) and not options.predict_ckpt
        if calibrated and earlier is not None and kept:
            found_so_far = thresholds.of(earlier) | calibrated
            spec = thresholds.replace(earlier, found_so_far, name_of_weights)
            spec.write(self.home)
        return results, calibrated

    def predict(self, checkpoint: checkpoints.Source, model=None) -> None:
        """Writes what the weights say about the splits to predict."""
        task, run = self.task, self.options.predict_run
        for name, split in task.predicts.items():
            input_fn = task.batches(split, PREDICT)
            predictions = loop.predict(
                self.objective, input_fn, run, checkpoint, model
            )
            outputs.require_finite(name, predictions)
            outputs.write_predictions(
                task, self.options, name, predictions, self.say
            )

    def write_export(
        self, checkpoint: checkpoints.Source, data_options: dict
    ) -> None:
        """A SavedModel of the weights, on one device."""
        if self.export is None:
            raise ValueError("`export` must be given for do_export")
        known = self.spec.data_options | data_options
        spec = dataclasses.replace(self.spec, data_options=known)
        folder = self.options.export_dir or os.path.join(self.home, "export")
        with to_export(
            self.objective.build_model,
            lambda model: checkpoints.restore(model, checkpoint, require="all"),
            self.options.export_precision,
        ) as model:
            version = self.export(
                folder,
                model,
                spec,
                self.task.features.spiece_model_file,
                weights=checkpoints.description(checkpoint),
            )
            self.say(f"exported {version}")


def build_objective(task: Task, options: FinetuneOptions):
    """The objective of a task, with everything checked that it stands on."""
    preflight.check_splits(task, options)
    spec = task.spec()
    if not options.do_train:
        check_trained(spec, options)
    config = find_config(
        options, task.tokenizer.vocab_size, task.features.spiece_model_file
    )
    preflight.check_segments(spec, config)
    preflight.check_disk(options, config)
    objective = heads.build_objective(
        spec.head,
        config,
        recompute_layers=options.recompute_layers,
        pack=options.pack,
        **spec.head_options,
        **task.objective_options(),
    )
    preflight.check_metric(task, objective)
    return objective


def settle_steps(rows: int, options: FinetuneOptions, say) -> FinetuneOptions:
    """`train_epochs` of so many examples as `train_steps`.

    Raises UserError: the warm-up is as long as the run.
    """
    if not options.train_epochs or not options.do_train:
        return options
    batch = options.run.train_batch_size
    steps = max(1, math.ceil(options.train_epochs * rows / batch))
    say(
        f"epochs       {options.train_epochs:g} of {rows} examples in batches "
        f"of {batch} = --train_steps={steps}"
    )
    run_options = options.run.replace(train_steps=steps)
    return dataclasses.replace(options, run=run_options)


def check_trained(spec: TaskSpec, options: FinetuneOptions) -> list[str]:
    """Notes about what a task has otherwise than the trained model.

    Raises UserError: it asks what the model was not trained for.
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
            trained = TaskSpec.read(folder)
            return task_settings.check_trained(trained, spec, path)
    return []


def check_same_task(wanted: TaskSpec, model_dir: str) -> None:
    """UserError, with what differs: the folder holds another task's model."""
    earlier = read_spec(model_dir)
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


def with_threshold_of(
    task: Task,
    spec: TaskSpec,
    folder: str,
    path: str,
    say: Callable[[str], None],
) -> TaskSpec:
    """The spec with the threshold of the weights, with which the task predicts.

    The task takes it, unless a flag gives one. The model's folder has
    task.json.
    """
    earlier = read_spec(folder)
    kept, lines = thresholds.for_weights(earlier, weights.name_in(folder, path))
    if not task.export_options():  # a flag gives one
        for line in lines:
            say(line)
        task.threshold = next(iter(kept.values()), None)
    return thresholds.replace(spec, kept)


def write_task(task: Task, spec: TaskSpec, folder: str) -> None:
    """Vocabulary and task.json of a model."""
    read = vocabulary.read(task.features.spiece_model_file)
    vocabulary.copy(read, spec.text, folder)
    spec.write(folder)
