"""Train, evaluate, predict: the outer loops behind every `run_*.py`.

Estimator-style: an `input_fn(params)`, an objective and `RunOptions`. A run
goes on by itself from the newest checkpoint of `model_dir`; the same command
started again gives the losses of a run that was never stopped.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from common.errors import UserError
from training import session, strategy
from training.guards import translate_errors
from training.objectives.contract import Objective
from training.options import RunOptions
from training.reporting.eval_runner import all_metrics
from training.reporting.evaluation import EvalResult, Evaluator, MetricFn
from training.run import InputFn, TrainingRun, TrainRequest, TrainResult

__all__ = [
    "TrainResult",
    "evaluate",
    "evaluate_continuously",
    "predict",
    "train",
]


def train(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    eval_input_fn: InputFn | None = None,
    metric_fn: MetricFn | None = None,
    must_match: dict | None = None,
    flags: dict | None = None,
    notes: Iterable[str] = (),
    say: Callable[[str], None] = print,
    begin: Callable[[str], None] | None = None,
) -> TrainResult:
    """Trains up to `options.train_steps`, resuming where `model_dir` is.

    Args:
      objective: from `heads.build_objective`.
      input_fn: endless global batches from `params["start_step"]` on.
      options: the run.
      eval_input_fn: finite global batches; evaluated every
        `options.eval_every` steps and at the end.
      metric_fn: more metrics from an `EvalResult`, official ones for example.
      must_match: facts about the data that a resumed run cannot change.
      flags: for `run.json`.
      notes: more lines for the start-up summary.
      say: takes every line of the report.
      begin: writes what shall lie beside the checkpoints; called with
        `model_dir` by the chief, before the first step.

    Raises:
      UserError: anything that the user can put right; the last good
        checkpoint stays.
    """
    request = TrainRequest(
        objective,
        input_fn,
        options,
        eval_input_fn,
        metric_fn,
        must_match or {},
        flags or {},
        list(notes),
        say,
        begin,
    )
    return TrainingRun(request)()


def _restored_model(objective: Objective, options: RunOptions, checkpoint):
    """(strategy, model) with every weight restored."""
    made = strategy.setup(options.strategy)
    session.check_config(options.model_dir, objective)
    path = checkpoint or session.checkpoint_to_read(options)
    with made.scope():
        model = objective.build_model()
    session.warm_start(made, model, path, "all")
    return made, model


def evaluate(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    metric_fn: MetricFn | None = None,
    checkpoint: str | None = None,
    model=None,
) -> EvalResult:
    """Evaluates a checkpoint on a whole labelled set.

    Args:
      objective: from `heads.build_objective`.
      input_fn: finite global batches with labels.
      options: `eval_batch_size`, `eval_steps`, `model_dir`, `strategy` count.
      metric_fn: more metrics from the predictions and labels.
      checkpoint: default: `best/` of `model_dir`, its newest, then
        `init_checkpoint`.
      model: use this model's weights instead (`TrainResult.model`).

    Returns:
      Metrics, predictions and labels in input order.
    """
    made = strategy.setup(options.strategy)
    if model is None:
        made, model = _restored_model(objective, options, checkpoint)
    evaluator = Evaluator(
        objective,
        model,
        made,
        input_fn,
        options.eval_batch_size,
        memory_dtype=session.memory_dtype(options),
    )
    with translate_errors(strategy.worker_count(made), None):
        result = evaluator.run(options.eval_steps)
    return dataclasses.replace(result, metrics=all_metrics(result, metric_fn))


def predict(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    checkpoint: str | None = None,
    model=None,
) -> dict[str, np.ndarray]:
    """Per-example outputs in input order, each once.

    Args:
      objective: from `heads.build_objective`.
      input_fn: finite global batches; labels are not needed.
      options: `eval_batch_size`, `model_dir`, `strategy` count.
      checkpoint: as for `evaluate`.
      model: as for `evaluate`.

    Returns:
      name -> array [E, ...], and `example_index` [E].
    """
    made = strategy.setup(options.strategy)
    if model is None:
        made, model = _restored_model(objective, options, checkpoint)
    evaluator = Evaluator(
        objective,
        model,
        made,
        input_fn,
        options.eval_batch_size,
        with_loss=False,
    )
    with translate_errors(strategy.worker_count(made), None):
        result = evaluator.run()
    return result.predictions | {"example_index": result.indices}


def evaluate_continuously(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    metric_fn: MetricFn | None = None,
    timeout: float | None = None,
    say: Callable[[str], None] = print,
) -> list[tuple[int, dict[str, float]]]:
    """Evaluates every new checkpoint of another job's `model_dir`.

    Args:
      objective: as for `evaluate`.
      input_fn: as for `evaluate`.
      options: as for `evaluate`; it ends at step `train_steps`.
      metric_fn: as for `evaluate`.
      timeout: seconds without a new checkpoint after which it ends; None =
        wait for ever.
      say: takes a line per evaluation.

    Returns:
      (step, metrics) of every evaluation.
    """
    made = strategy.setup(options.strategy)
    with made.scope():
        model = objective.build_model()
    evaluator = Evaluator(
        objective,
        model,
        made,
        input_fn,
        options.eval_batch_size,
        memory_dtype=session.memory_dtype(options),
    )
    history = []
    for path in tf.train.checkpoints_iterator(
        options.model_dir, timeout=timeout
    ):
        step = int(path.rsplit("-", 1)[1])
        try:
            session.check_config(options.model_dir, objective)
            session.warm_start(made, model, path, "all")
        except (UserError, tf.errors.NotFoundError):
            if tf.io.gfile.exists(path + ".index"):
                raise
            continue  # rotated away while we were busy
        metrics = all_metrics(evaluator.run(options.eval_steps), metric_fn)
        history.append((step, metrics))
        shown = " ".join(f"{k} {v:.5g}" for k, v in metrics.items())
        say(f"evaluation at step {step}: {shown}")
        if step >= options.train_steps:
            break
    return history
