"""When the averaging of weights begins: the non-monotonic trigger of NT-ASGD.

Merity et al. 2017, "Regularizing and optimizing LSTM language models",
algorithm 1: averaging begins after the first evaluation whose loss is above the
best one among those that are more than n evaluations old.
"""

import numpy as np
import tensorflow as tf

_NEVER = 2**62  # steps


class AverageTrigger:
    """Variables, so that a resumed run decides as the whole one.

    Create it inside the strategy's scope.

    Args:
      patience: n, evaluations that may pass without a better loss.

    Attributes:
      begin: int64 scalar, updates made before the averaged ones.
      state: what a checkpoint saves.
    """

    def __init__(self, patience: int):
        def variable(value, dtype):
            return tf.Variable(value, trainable=False, dtype=dtype)

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
