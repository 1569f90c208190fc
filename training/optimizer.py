"""AdamW with explicit groups, and the original's Adam.

Why not a ready optimizer: the original's AdamW corrects no bias and its Adam
adds epsilon to the uncorrected root, rates are per variable, decay is
decoupled and scaled with them, and the slots must be saved under names that do
not depend on the order of variables. Each replica updates its own copy of a
variable with the same aggregated gradient, so no replica waits for another.
"""

import tensorflow as tf

from modeling import fusion
from training.options import OptimizerOptions
from training.schedule import Schedule
from training.variable_groups import Group


def clip_by_global_norm(
    gradients: list[tf.Tensor], limit: float
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Scales dense gradients so that their joint norm is at most `limit`.

    Args:
      gradients: float32 tensors.
      limit: 0 = only measure.

    Returns:
      The gradients and their norm before clipping, float32 scalar.
    """
    norm = tf.linalg.global_norm(gradients)
    if not limit:
        return gradients, norm
    scale = limit / tf.maximum(norm, limit)
    return [g * scale for g in gradients], norm


class AdamW:
    """Adam with decoupled decay; with `weight_decay=0` bias-corrected Adam.

    decay:     m, v as usual;  w -= lr * mult * (m / (sqrt(v) + eps) + wd * w)
    no decay:  w -= lr * mult * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps)

    Create it inside the strategy's scope: it makes two slots per variable,
    float32, and the step. `state` is what a `tf.train.Checkpoint` saves.

    Args:
      options: see `OptimizerOptions`.
      schedule: step -> rate.
      variables: canonical name -> variable, frozen ones included.
      groups: canonical name -> group, for every name of `variables`.
    """

    def __init__(
        self,
        options: OptimizerOptions,
        schedule: Schedule,
        variables: dict[str, tf.Variable],
        groups: dict[str, Group],
    ):
        self.options = options
        self.schedule = schedule
        self._names = [n for n in variables if not groups[n].frozen]
        self._groups = [groups[n] for n in self._names]
        self._variables = {n: variables[n] for n in self._names}
        self.step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="global_step",
        )
        self.m = {n: _slot(v) for n, v in self._variables.items()}
        self.v = {n: _slot(v) for n, v in self._variables.items()}
        self.ema = {}
        if options.ema_decay:
            self.ema = {
                n: tf.Variable(v.value(), trainable=False, name="ema")
                for n, v in self._variables.items()
            }
        self.state = tf.Module(name="adamw")
        self.state.step = self.step
        self.state.m = dict(self.m)
        self.state.v = dict(self.v)
        self.state.ema = dict(self.ema)

    @property
    def trained(self) -> list[tf.Variable]:
        """The variables that get a gradient, in the order of `apply`."""
        return list(self._variables.values())

    @property
    def trained_names(self) -> list[str]:
        """Their canonical names."""
        return list(self._names)

    def prepare(
        self, gradients: list[tf.Tensor]
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Clips aggregated gradients; returns them and the norm before."""
        gradients, norm = clip_by_global_norm(gradients, self.options.clip)
        # The compatibility style scales after clipping, as the original.
        scaled = []
        for g, group in zip(gradients, self._groups, strict=True):
            k = group.gradient_multiplier
            scaled.append(g if k == 1.0 else g * k)
        return scaled, norm

    def apply(self, gradients: list[tf.Tensor], step: tf.Tensor) -> tf.Tensor:
        """Updates weights and slots, not the step.

        Args:
          gradients: prepared, dense, in the order of `trained`.
          step: int64 scalar, the number of updates made so far.

        Returns:
          The sum of squares of the update, float32 scalar.
        """
        o = self.options
        rate = self.schedule(step)
        correction = tf.constant(1.0)
        if not o.weight_decay:
            t = tf.cast(step + 1, tf.float32)
            correction = tf.sqrt(1.0 - o.beta2**t) / (1.0 - o.beta1**t)
        squares = []
        for g, name, group in zip(
            gradients, self._names, self._groups, strict=True
        ):
            w = self._variables[name]
            new_w, m, v, square = _adamw(
                tf.convert_to_tensor(w),
                tf.convert_to_tensor(self.m[name]),
                tf.convert_to_tensor(self.v[name]),
                g,
                rate * group.lr_multiplier,
                correction,
                beta1=o.beta1,
                beta2=o.beta2,
                epsilon=o.adam_epsilon,
                decay=o.weight_decay if group.decayed else 0.0,
            )
            self.m[name].assign(m)
            self.v[name].assign(v)
            w.assign(new_w)
            if self.ema:
                d = o.ema_decay
                self.ema[name].assign(d * self.ema[name] + (1.0 - d) * w)
            squares.append(square)
        return tf.add_n(squares)


@fusion.compiled
def _adamw(w, m, v, g, rate, correction, beta1, beta2, epsilon, decay):
    """One pass over a variable: (w', m', v', sum of squares of the update)."""
    m = beta1 * m + (1.0 - beta1) * g
    v = beta2 * v + (1.0 - beta2) * tf.square(g)
    update = correction * m / (tf.sqrt(v) + epsilon)
    if decay:
        update += decay * w
    update *= rate
    return w - update, m, v, tf.reduce_sum(tf.square(update))


def _slot(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(
        tf.zeros(variable.shape, tf.float32), trainable=False, name="slot"
    )
