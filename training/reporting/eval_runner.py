"""Evaluation between host loops: averaged weights, best checkpoint, log."""

import contextlib
import json
import math
import os

import orbit
import tensorflow as tf

from common import files
from common.errors import UserError
from modeling.checkpoints.weights import LOG_NAME, read_log
from training.checkpointing.best_checkpoint import BestCheckpoint
from training.checkpointing.run_state import RunState
from training.reporting.evaluation import Evaluator
from training.step.learner import Learner


class EvaluatorRunner(orbit.AbstractEvaluator):
    """Evaluates the current weights, or their average, and keeps the best.

    `make` gives a run's `Evaluator`, or what evaluates as one does.
    """

    def __init__(self, run: RunState, make, say):
        self._run = run
        self._say = say
        options, learner = run.options, run.learner
        self._evaluator = make(run)
        self._best = None
        if options.best_metric:
            self._best = BestCheckpoint(
                options.model_dir,
                learner.model,
                options.best_metric,
                options.best_higher,
                run.chief,
                run.start_step,
            )
        self._log = None
        if run.chief:
            self._log = EvaluationLog(options.model_dir, run.start_step)
        self.history: list[tuple[int, dict[str, float]]] = []

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """One evaluation; called by the controller."""
        run = self._run
        step = int(run.learner.optimizer.step.numpy())
        with averaged_weights(run.learner):
            metrics = self._evaluator.run(int(num_steps)).metrics
            best = self._best and self._best.offer(metrics, step)
        self.history.append((step, metrics))
        trigger = run.learner.optimizer.averages.trigger
        begins = trigger and trigger.note(step, _loss(metrics))
        if self._log:
            self._log.add(step, metrics)
        mark = " (best so far)" if best else ""
        if run.options.progress != "none":
            self._say(evaluation_line(step, metrics) + mark)
            if begins:
                self._say(f"weights are averaged from step {step} on")
        return dict(metrics)

    def missing(self, step: int) -> bool:
        """The step that a run goes on from should have been evaluated."""
        every = self._run.options.eval_every
        if self._log is None or not step or not every or step % every:
            return False
        return not self._log.has(step)

    def since_best(self) -> int:
        """Evaluations after the best one; 0 in processes that keep no log."""
        if self._log is None:
            return 0
        options = self._run.options
        return self._log.since_best(options.best_metric, options.best_higher)


def _loss(metrics: dict[str, float]) -> float:
    """UserError: nothing that was evaluated had a loss."""
    if "loss" not in metrics:
        raise UserError(
            "--average_trigger counts evaluations by their `loss`, and this "
            f"one has {', '.join(sorted(metrics))} alone: leave it out, or "
            "evaluate on data with known labels"
        )
    return metrics["loss"]


def single_evaluator(input_fn, metric_fn):
    """Run -> the `Evaluator` of its objective."""

    def make(run: RunState) -> Evaluator:
        learner = run.learner
        return Evaluator(
            learner.objective,
            learner.model,
            learner.strategy,
            input_fn,
            run.options.eval_batch_size,
            metric_fn=metric_fn,
        )

    return make


@contextlib.contextmanager
def averaged_weights(learner: Learner):
    """Swaps the averages in for the weights, and back at the end."""
    averages = learner.optimizer.averages.by_name
    kept = {n: learner.variables[n].numpy() for n in averages}
    try:
        for name, average in averages.items():
            learner.variables[name].assign(average.value())
        yield
    finally:
        for name, value in kept.items():
            learner.variables[name].assign(value)


def evaluation_line(step: int, metrics: dict[str, float]) -> str:
    """What the log says of an evaluation."""
    shown = " ".join(f"{k} {v:.5g}" for k, v in metrics.items())
    return f"evaluation at step {step}: {shown}"


class EvaluationLog:
    """`evaluations.jsonl`: one line per evaluation, cut when resuming."""

    def __init__(self, model_dir: str, start_step: int):
        self._path = os.path.join(model_dir, LOG_NAME)
        rows = read_log(model_dir) if start_step else {}
        self._rows = {s: row for s, row in rows.items() if s <= start_step}

    def has(self, step: int) -> bool:
        """There is a line of this step."""
        return step in self._rows

    def since_best(self, metric: str | None, higher: bool) -> int:
        """Lines after the one with the best value of a metric.

        The first of equals is the best; a value that is no number never is.
        """
        best, since = -math.inf, 0
        for step in sorted(self._rows):
            value = self._rows[step].get(metric, math.nan)
            value = value if higher else -value
            since += 1
            if value > best:
                best, since = value, 0
        return since

    def add(self, step: int, metrics: dict[str, float]) -> None:
        """Writes the file anew with one more line."""
        self._rows[step] = {"step": step} | metrics
        text = "".join(json.dumps(row) + "\n" for row in self._rows.values())
        files.write_text(self._path, text)
