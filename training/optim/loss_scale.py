"""Dynamic loss scaling for mixed_float16, in replica context."""

import tensorflow as tf

from training.optim.optimizer import AdamW

GROWTH_STEPS = 2000
LEAST = 1.0
# A run whose gradients are 0 or tiny never overflows: its scale would become
# infinite, and no later step would be an update.
MOST = 2.0**60


class LossScale:
    """Doubles after `GROWTH_STEPS` finite steps, halves at once otherwise.

    It stays between `LEAST` and `MOST`.

    A step whose gradient is not finite changes neither weights nor slots, and
    it is no update: the optimizer's bias corrections count those that were
    made. Averages of the weights are over steps: they take its weights in.

    Create it inside the strategy's scope; `state` is saved. The loss is divided
    by `row_count`, the rows per replica: it is a sum, and the sum of many rows
    would overflow first.
    """

    def __init__(self, initial: float = 2.0**15, row_count: int = 1):
        self._rows = float(row_count)
        self.scale = tf.Variable(initial, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int32)
        self.skipped = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.state = tf.Module(name="loss_scale")
        self.state.scale = self.scale
        self.state.good_steps = self.good_steps
        self.state.skipped = self.skipped

    @property
    def is_least(self) -> bool:
        """Whether the scale cannot be halved any more."""
        return float(self.scale.numpy()) <= LEAST

    def scale_loss(self, loss_sum: tf.Tensor) -> tf.Tensor:
        """The scalar to differentiate."""
        return loss_sum * (self.scale.read_value() / self._rows)

    def inverse(self) -> tf.Tensor:
        """What the gradients of `scale_loss` must be multiplied by."""
        return self._rows / self.scale.read_value()

    def apply(
        self,
        optimizer: AdamW,
        gradients: list[tf.Tensor],
        norm: tf.Tensor,
        step: tf.Tensor,
        factor: tf.Tensor | float = 1.0,
        task: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """`optimizer.apply` if `norm` is finite; the update's squares."""

        def good():
            updates = step - self.skipped.read_value()
            squares = optimizer.apply(gradients, step, factor, task, updates)
            count = self.good_steps.read_value() + 1
            grow = count >= GROWTH_STEPS
            self.good_steps.assign(tf.where(grow, 0, count))
            doubled = tf.minimum(self.scale * 2.0, MOST)
            self.scale.assign(tf.where(grow, doubled, self.scale.read_value()))
            return squares

        def bad():
            self.good_steps.assign(0)
            self.skipped.assign_add(1)
            self.scale.assign(tf.maximum(self.scale * 0.5, LEAST))
            optimizer.averages.move(step)
            return tf.constant(0.0)

        return tf.cond(tf.math.is_finite(norm), good, bad)
