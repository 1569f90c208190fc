"""StableAdamW: AdamW whose rate falls where an update would be too large.

Per tensor, step t = 1, 2, ...:

  b^ = (b^t - b) / (b^t - 1)             both betas: averages without bias
  m  = b1^ m + (1 - b1^) g;              v = b2^ v + (1 - b2^) g^2
  rms = sqrt(mean(g^2 / max(v, eps^2)))
  lr_t = lr / max(1, rms)
  w *= 1 - lr_t * wd                     or 1 - (lr_t / peak) * wd
  w -= lr_t * m / (sqrt(v) + eps)

The clipping of an update by its own size takes the place of that by the joint
norm of all gradients: use `clip` 0 with it.
"""

import tensorflow as tf

from modeling.ops import fused as fusion
from training.optim.averages import local_copy
from training.optim.optimizer import AdamW, times


class StableAdamW(AdamW):
    """See the module; arguments, slots and `state` are those of `AdamW`.

    `options.decouple_lr` takes the second form of the decay, with the peak
    rate as its unit.
    """

    def bias_terms(self, step):
        """b1^ and b2^ of the module, float32 scalars."""
        t = tf.cast(step + 1, tf.float32)
        return debiased(self.options.beta1, t), debiased(self.options.beta2, t)

    def update(self, g, name, group, factor, rate, bias):
        """See `AdamW.update`."""
        o = self.options
        slots = (self._variables[name], self.m[name], self.v[name])
        peak = self.schedule.peak * group.lr_multiplier
        return _stable(
            *map(local_copy, slots),
            g,
            times(factor, group.gradient_multiplier),
            times(rate, group.lr_multiplier),
            *bias,
            epsilon=o.adam_epsilon,
            decay=o.weight_decay if group.decayed else 0.0,
            unit=peak if o.decouple_lr else 1.0,
        )


def debiased(beta: float, t: tf.Tensor) -> tf.Tensor:
    """beta of step t, with which an average needs no other correction."""
    # b^t loses digits in float32 where b is near 1 and t small.
    power = tf.pow(tf.constant(beta, tf.float64), tf.cast(t, tf.float64))
    return tf.cast((power - beta) / (power - 1.0), tf.float32)


@fusion.compiled
def _stable(w, m, v, g, factor, rate, beta1, beta2, epsilon, decay, unit):
    """Updates three variables where they lie; the squares of the difference."""
    g *= factor
    new_m = beta1 * m + (1.0 - beta1) * g
    new_v = beta2 * v + (1.0 - beta2) * tf.square(g)
    ratio = tf.square(g) / tf.maximum(new_v, epsilon**2)
    rate /= tf.maximum(1.0, tf.sqrt(tf.reduce_mean(ratio)))
    update = rate * new_m / (tf.sqrt(new_v) + epsilon)
    if decay:
        shrink = rate * decay / unit
        # Decay first, then the step: w (1 - shrink) - update.
        update += shrink * w
    m.assign(new_m)
    v.assign(new_v)
    w.assign(w - update)
    return tf.reduce_sum(tf.square(update))
