"""The best weights of a training so far, in `best/`."""

import math
import os
import re

import tensorflow as tf

from common import files
from common.errors import UserError
from common.weights.weights_line import BEST
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import restore, weights
from training.checkpointing import saving
from training.checkpointing.checkpoints import PREFIX

OLD_BEST = "best.old"


class BestCheckpoint:
    """Keeps the weights with the best value of a metric in `best/`.

    `start_step` 0 = the run begins, and what is there is of another run.
    Raises UserError: the run kept the best of another metric until now, and
    the best by this one is not there.
    """

    def __init__(
        self,
        model_dir: str,
        model,
        metric: str,
        higher: bool,
        chief: bool = True,
        start_step: int = 0,
    ):
        self.metric = metric
        self._sign = 1.0 if higher else -1.0
        self._chief = chief
        self.value = tf.Variable(
            float("nan"), trainable=False, dtype=tf.float64, name="best"
        )
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64)
        with tf.device("CPU:0"):  # no other one holds text
            name = tf.Variable(metric, trainable=False, dtype=tf.string)
        self.directory = os.path.join(model_dir, BEST)
        self._checkpoint = tf.train.Checkpoint(
            model=model, value=self.value, step=self.step, metric=name
        )
        if chief:
            saving.remove_unfinished(self.directory, PREFIX)
        recorded = weights.read_best(model_dir) if start_step else None
        if recorded:
            if chief:
                self._keep(recorded.path)
            self.value.assign(self._value_of(model_dir, recorded, start_step))
            self.step.assign(recorded.step)

    def _value_of(self, model_dir: str, kept: weights.Best, step: int) -> float:
        """The value by which what is kept is the best, else UserError."""
        if kept.metric == self.metric:
            return kept.value
        rows = weights.read_log(model_dir)
        if kept.metric is None:  # a version that did not save the name
            if rows.get(kept.step, {}).get(self.metric) == kept.value:
                return kept.value
        values = {
            at: row[self.metric]
            for at, row in rows.items()
            if at <= step and not math.isnan(row.get(self.metric, math.nan))
        }
        # The first of equals, as in a run that kept the best by this metric.
        best = max(values, key=lambda at: self._sign * values[at], default=None)
        if best == kept.step:
            return values[best]
        by = kept.metric or "another metric"
        where = f"at step {best}" if values else "in no evaluation"
        raise UserError(
            f"{self.directory} was kept by {by} and is of step {kept.step}, "
            f"the best by {self.metric} is {where}: continue with --best_metric="
            f"{kept.metric or '(the earlier one)'}, or use another --model_dir"
        )

    def offer(self, metrics: dict[str, float], step: int) -> bool:
        """Saves when `metrics` beats the best so far; whether it did.

        The first number is the best so far; NaN never is. Raises UserError: the
        metric is not among `metrics`.
        """
        if self.metric not in metrics:
            raise UserError(
                f"`best_metric` is {self.metric!r} but the evaluation gives "
                f"{sorted(metrics)}"
            )
        new, old = metrics[self.metric], float(self.value.numpy())
        if step == int(self.step.numpy()) and new != old:
            old = math.nan  # made again, otherwise: what was kept is no more
        if math.isnan(new) or self._sign * new <= self._sign * old:
            return False
        self.value.assign(new)
        self.step.assign(step)
        if self._chief:
            self._write(step)
        return True

    def _write(self, step: int) -> None:
        tf.io.gfile.makedirs(self.directory)
        path = os.path.join(self.directory, f"{PREFIX}-{step}")
        try:
            self._checkpoint.write(path)
            self._keep(path)
        except (tf.errors.OpError, OSError) as e:
            run = os.path.dirname(self.directory)
            of_run = checkpoint_folder.whole(run, PREFIX)
            raise saving.failed(path, (of_run or [None])[-1], e) from e

    def _keep(self, path: str) -> None:
        """From here on it is the best one; those of earlier steps go."""
        checkpoint_folder.publish(self.directory, [path])
        start, step = path.rsplit("-", 1)
        for old in files.beginning_with(start + "-"):
            number = re.match(r"\d+", old[len(start) + 1 :])
            if number and int(number[0]) < int(step):
                saving.remove(old)


def begin_anew(state) -> list[str]:
    """Moves what a dead run left of its evaluations out of the way.

    Where a run begins at step 0, the best weights and the log of its folder
    would be another run's. Returns lines that say so; only the chief of a run
    that begins does it. Raises UserError: the run begins with these very
    weights.
    """
    options = state.options
    if not state.chief or state.start_step:
        return []
    folder = os.path.join(options.model_dir, BEST)
    kept = weights.read_best(options.model_dir)
    start = options.init_checkpoint
    if kept and start and _lies_in(restore.resolve(start).path, folder):
        raise UserError(
            f"--init_checkpoint={start} lies in the --model_dir of a run that "
            f"starts over: give another --model_dir"
        )
    log = os.path.join(options.model_dir, weights.LOG_NAME)
    if files.exists(log):
        tf.io.gfile.remove(log)
    if kept is None:
        return []
    old = os.path.join(options.model_dir, OLD_BEST)
    saving.remove_unfinished(folder, PREFIX)
    saving.remove(old)
    tf.io.gfile.rename(folder, old)
    return [
        f"note: {folder} is of an earlier run, whose other checkpoints are "
        f"gone: moved to {old}"
    ]


def _lies_in(path: str, folder: str) -> bool:
    path, folder = (os.path.abspath(p) for p in (path, folder))
    return path.startswith(folder + os.sep)
