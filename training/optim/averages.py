"""Averages of the weights over the steps of a run.

ema_decay d:        a <- d a + (1 - d) w
average_last N:     a <- a + (w - a) / n,  n = 1, 2, .. from step S - N on
average_trigger n:  the same mean, from the step on that `AverageTrigger` finds
"""

import numpy as np
import tensorflow as tf

from modeling.ops import fused as fusion
from training.optim.schedules import Schedule
from training.run_options import OptimizerOptions

_NEVER = 2**62  # steps


def local_copy(variable: tf.Variable) -> tf.Variable:
    """This replica's copy, which a compiled function takes as an argument."""
    if not isinstance(variable, tf.distribute.DistributedValues):
        return variable
    context = tf.distribute.get_replica_context()
    number = tf.get_static_value(context.replica_id_in_sync_group)
    if number is None:  # on TPU, where the whole step is one function
        return variable
    copies = context.strategy.experimental_local_results(variable)
    return copies[number % len(copies)]  # numbers go on over the workers


class WeightAverages:
    """A moving or a plain mean of every trained variable.

    By `ema_decay`, `average_last` or `average_trigger` of the options; without
    any of them there are no averages. `train_steps` of the schedule is S, where
    the run ends. Create it inside the strategy's scope.
    """

    def __init__(
        self,
        options: OptimizerOptions,
        schedule: Schedule,
        variables: dict[str, tf.Variable],
    ):
        self._decay = options.ema_decay
        self._schedule, self._last = schedule, options.average_last
        self._variables = variables
        self.by_name = {}
        if options.averages:
            self.by_name = {
                name: tf.Variable(v.value(), trainable=False, name="ema")
                for name, v in variables.items()
            }
        # Updates made before those of a plain mean over the last ones. What a
        # checkpoint says of its own mean is held against it on resume.
        self.mean_begin = tf.Variable(
            self.first_of_last if self._last else _NEVER,
            trainable=False,
            dtype=tf.int64,
        )
        self.trigger = None
        if options.average_trigger:
            self.trigger = AverageTrigger(options.average_trigger)

    @property
    def first_of_last(self) -> int:
        """Updates of this run before those that `average_last` counts."""
        return self._schedule.train_steps - self._last

    def move(self, step: tf.Tensor) -> None:
        """Takes the new weights in after `step` steps, int64 scalar."""
        if not self.by_name:
            return
        share = None if self._decay else self._share(step)
        for name, average in self.by_name.items():
            pair = map(local_copy, (average, self._variables[name]))
            if self._decay:
                _average(*pair, decay=self._decay)
            else:
                _mean(*pair, share)

    def _share(self, step):
        """What the next weights count in the plain mean; 1 = it begins."""
        if self.trigger:
            begin = self.trigger.begin.read_value()
        else:
            begin = self.first_of_last
        return 1.0 / tf.maximum(tf.cast(step + 1 - begin, tf.float32), 1.0)


class AverageTrigger:
    """When the mean begins: the non-monotonic trigger of NT-ASGD.

    Merity et al. 2017, "Regularizing and optimizing LSTM language models",
    algorithm 1: averaging begins after the first evaluation whose loss is above
    the best one among those that are more than n (`patience`) evaluations old.

    Its state, which a checkpoint saves, are variables, so that a resumed run
    decides as the whole one. Create it inside the strategy's scope.
    """

    def __init__(self, patience: int):
        def variable(value, dtype):
            return tf.Variable(value, trainable=False, dtype=dtype)

        # updates made before the averaged ones
        self.begin = variable(_NEVER, tf.int64)
        self._noted = variable(-1, tf.int64)
        # The best of the older losses, then the last n.
        self._losses = variable([np.inf] * (patience + 1), tf.float32)
        self.state = tf.Module(name="average_trigger")
        self.state.begin, self.state.noted = self.begin, self._noted
        self.state.losses = self._losses

    def misses(self, step: int) -> bool:
        """Whether the evaluation of this step was not noted yet.

        A checkpoint is saved before its step is evaluated.
        """
        return int(self._noted.numpy()) < step

    def note(self, step: int, loss: float) -> bool:
        """Takes the loss of an evaluation; whether averaging begins with it."""
        self._noted.assign(step)
        if int(self.begin.numpy()) != _NEVER:
            return False
        loss = np.float32(loss)
        best, oldest, *recent = *self._losses.numpy(), loss
        begins = bool(loss > best)
        if begins:
            self.begin.assign(step)
        self._losses.assign([min(best, oldest), *recent])
        return begins


@fusion.compiled
def _average(average, w, decay):
    """Moves an average towards the new weights where it lies."""
    average.assign(decay * average + (1.0 - decay) * w)


@fusion.compiled
def _mean(average, w, share):
    """Takes the new weights into a plain mean where it lies."""
    average.assign(average + share * (w - average))
