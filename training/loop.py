"""Train, evaluate, predict: the calls behind every `run_*.py`.

Estimator-style: an `input_fn(params)`, an objective and `RunOptions`. A run
goes on by itself from the newest checkpoint of `model_dir`; the same command
started again gives the losses of a run that was never stopped.

`training.run` has the course of one training, `training.checkpointing.run_state` the objects
that it builds and restores, `training.step.train_step` one optimizer step.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints.restore import Source
from training import strategy
from training.checkpointing import checkpoints
from training.objectives.contract import Objective
from training.reporting import run_record
from training.reporting.eval_runner import evaluation_line
from training.reporting.evaluation import EvalResult, Evaluator, MetricFn
from training.run import InputFn, TrainRequest, TrainResult, run_training
from training.run_options import RunOptions
from training.step.guards import translate_errors

_SECONDS_BETWEEN_LOOKS = 1.0

__all__ = [
    "TrainRequest",
    "TrainResult",
    "evaluate",
    "evaluate_continuously",
    "predict",
    "train",
]


def train(
    objective: Objective, input_fn: InputFn, options: RunOptions, **more
) -> TrainResult:
    """Trains up to `options.train_steps`, resuming where `model_dir` is.

    `input_fn` gives endless global batches from `params["start_step"]` on.
    Raises UserError: anything that the user can put right; the last good
    checkpoint stays.
    """
    return run_training(TrainRequest(objective, input_fn, options, **more))


class _Evaluation:
    """An `Evaluator` outside of training and the weights that it evaluates.

    They are the model's; None = a new one, for `restore`.
    """

    def __init__(
        self,
        objective: Objective,
        input_fn: InputFn,
        options: RunOptions,
        model=None,
        **how,
    ):
        self._strategy = strategy.setup(options.strategy)
        self._objective, self._options = objective, options
        if model is None:
            with self._strategy.scope():
                model = objective.build_model()
        self._model = model
        self._evaluator = Evaluator(
            objective,
            model,
            self._strategy,
            input_fn,
            options.eval_batch_size,
            **how,
        )

    def restore(self, path) -> None:
        """Every weight from a checkpoint, see `checkpoints.restore_weights`."""
        checkpoints.check_config(self._options.model_dir, self._objective)
        checkpoints.restore_weights(self._strategy, self._model, path, "all")

    def run(self, steps: int = -1) -> EvalResult:
        """See `Evaluator.run`; what tf.data raises becomes one line."""
        processes = strategy.worker_count(self._strategy)
        with translate_errors(processes, None):
            return self._evaluator.run(steps)


def _evaluation(objective, input_fn, options, checkpoint, model, **how):
    """An `_Evaluation` of `model`, `checkpoint` or what `model_dir` holds."""
    if model is not None:
        return _Evaluation(objective, input_fn, options, model, **how)
    path = checkpoint or checkpoints.weights_to_read(options)
    evaluation = _Evaluation(objective, input_fn, options, **how)
    evaluation.restore(path)
    return evaluation


def evaluate(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    metric_fn: MetricFn | None = None,
    checkpoint: str | Source | None = None,
    model=None,
) -> EvalResult:
    """Metrics, predictions and labels in input order of a whole labelled set.

    Args:
      input_fn: finite global batches with labels.
      checkpoint: default: `checkpoints.weights_to_read`.
      model: use this model's weights instead (`TrainResult.model`).
    """
    evaluation = _evaluation(
        objective, input_fn, options, checkpoint, model, metric_fn=metric_fn
    )
    return evaluation.run(options.eval_steps)


def predict(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    checkpoint: str | Source | None = None,
    model=None,
) -> dict[str, np.ndarray]:
    """Per-example outputs in input order, each once.

    name -> array [E, ...], and `example_index` [E], of finite global batches;
    labels are not needed. `model` as for `evaluate`.
    """
    evaluation = _evaluation(
        objective, input_fn, options, checkpoint, model, with_loss=False
    )
    result = evaluation.run()
    return result.predictions | {"example_index": result.indices}


def _new_checkpoints(folder: str, timeout: float | None) -> Iterator[str]:
    """The newest whole checkpoint of a folder, each time that it is another.

    `tf.train.checkpoints_iterator` takes the folder's name for a pattern.
    """
    last, since = None, time.monotonic()
    while timeout is None or time.monotonic() - since < timeout:
        newest = checkpoint_folder.newest_prefix(folder)
        if newest in (None, last):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            continue
        yield newest
        last, since = newest, time.monotonic()


def evaluate_continuously(
    objective: Objective,
    input_fn: InputFn,
    options: RunOptions,
    metric_fn: MetricFn | None = None,
    timeout: float | None = None,
    say: Callable[[str], None] = print,
    recorded: bool = False,
) -> list[tuple[int, dict[str, float]]]:
    """Evaluates every new checkpoint of another job, up to its last step.

    That is `train_steps`, or, `recorded`, the one that its `run.json` says.
    Returns (step, metrics) of every evaluation; `say` takes a line of it.
    After `timeout` seconds without a new checkpoint it ends; None = wait for
    ever.
    """
    evaluation = _Evaluation(objective, input_fn, options, metric_fn=metric_fn)
    history = []
    for path in _new_checkpoints(options.model_dir, timeout):
        step = int(path.rsplit("-", 1)[1])
        try:
            evaluation.restore(path)
        except (UserError, tf.errors.NotFoundError):
            if tf.io.gfile.exists(path + ".index"):
                raise
            continue  # rotated away while we were busy
        metrics = evaluation.run(options.eval_steps).metrics
        history.append((step, metrics))
        say(evaluation_line(step, metrics))
        last = run_record.train_steps(options.model_dir) if recorded else None
        if step >= (last or options.train_steps):
            break
    return history
