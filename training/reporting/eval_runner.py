"""Evaluation between host loops: averaged weights, best checkpoint, log."""

import json
import os

import orbit
import tensorflow as tf

from common import files
from training import session
from training.checkpoints import BestCheckpoint
from training.reporting.evaluation import EvalResult, Evaluator, MetricFn

LOG_NAME = "evaluations.jsonl"


class EvaluatorRunner(orbit.AbstractEvaluator):
    """Evaluates the current weights, or their average, and keeps the best.

    Args:
      run: the session.
      input_fn: finite global batches.
      metric_fn: see `train`.
      say: takes a line.
    """

    def __init__(self, run: session.Session, input_fn, metric_fn, say):
        self._session = run
        self._metric_fn = metric_fn
        self._say = say
        options = run.options
        self._evaluator = Evaluator(
            run.objective,
            run.model,
            run.strategy,
            input_fn,
            options.eval_batch_size,
            memory_dtype=session.memory_dtype(options),
        )
        self._best = None
        if options.best_metric:
            self._best = BestCheckpoint(
                options.model_dir,
                run.model,
                options.best_metric,
                options.best_higher,
                run.chief,
            )
        self._log = None
        if run.chief:
            self._log = EvaluationLog(options.model_dir, run.start_step)
        self.history: list[tuple[int, dict[str, float]]] = []

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, float]:
        """One evaluation; called by the controller."""
        run = self._session
        step = int(run.optimizer.step.numpy())
        with AveragedWeights(run):
            result = self._evaluator.run(int(num_steps))
            metrics = all_metrics(result, self._metric_fn)
            best = self._best and self._best.offer(metrics, step)
        self.history.append((step, metrics))
        if self._log:
            self._log.add(step, metrics)
        shown = " ".join(f"{k} {v:.5g}" for k, v in metrics.items())
        mark = " (best so far)" if best else ""
        if run.options.progress != "none":
            self._say(f"evaluation at step {step}: {shown}{mark}")
        return dict(metrics)


class AveragedWeights:
    """Swaps the moving average in for the weights, and back at the end."""

    def __init__(self, run: session.Session):
        self._pairs = []
        if run.optimizer.ema:
            variables = run.objective.named_variables(run.model)
            self._pairs = [
                (variables[n], average)
                for n, average in run.optimizer.ema.items()
            ]
        self._strategy = run.strategy

    def __enter__(self):
        self._kept = [w.numpy() for w, _ in self._pairs]
        for w, average in self._pairs:
            w.assign(average.value())

    def __exit__(self, *unused):
        for (w, _), value in zip(self._pairs, self._kept, strict=True):
            w.assign(value)


def all_metrics(result: EvalResult, metric_fn: MetricFn | None) -> dict:
    """The evaluation's metrics, perplexity and those of `metric_fn`."""
    metrics = dict(result.metrics)
    if "lm_loss" in metrics:
        metrics["perplexity"] = session.perplexity(metrics["lm_loss"])
    if metric_fn is not None:
        metrics |= metric_fn(result)
    return metrics


class EvaluationLog:
    """`evaluations.jsonl`: one line per evaluation, cut when resuming.

    Args:
      model_dir: its folder.
      start_step: lines of later steps are dropped.
    """

    def __init__(self, model_dir: str, start_step: int):
        self._path = os.path.join(model_dir, LOG_NAME)
        self._rows: dict[int, dict] = {}
        if start_step and tf.io.gfile.exists(self._path):
            with files.open_binary(self._path) as f:
                lines = f.read().decode("utf-8").splitlines()
            rows = [json.loads(line) for line in lines]
            self._rows = {
                row["step"]: row for row in rows if row["step"] <= start_step
            }

    def add(self, step: int, metrics: dict[str, float]) -> None:
        """Writes the file anew with one more line."""
        self._rows[step] = {"step": step} | metrics
        text = "".join(json.dumps(row) + "\n" for row in self._rows.values())
        files.write_text(self._path, text)
