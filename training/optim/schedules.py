"""The learning rate of a step, exactly as the original computes it."""

import math

import tensorflow as tf

from training.run_options import OptimizerOptions


class Schedule:
    """Linear warm-up from 0, then polynomial (power 1), cosine or no decay.

    `RunOptions` checks that both fit into `train_steps`.

    "wsd" (ModernBERT's trapezoid) stays at the peak until the last
    `decay_steps` steps.

    The rate of the update that makes step s into s + 1 is `schedule(s)`: with
    warm-up the first update has rate 0.

        step   0 ... warmup_steps ............ train_steps
        rate   0 /   learning_rate  \\........ learning_rate * min_lr_ratio
    """

    def __init__(self, options: OptimizerOptions, train_steps: int):
        self.train_steps = train_steps
        self.peak = options.learning_rate
        self.warmup_steps = options.warmup_steps
        self.decay_steps = train_steps - options.warmup_steps
        self.decay_method = options.decay_method
        self.stable_until = train_steps - options.decay_steps
        self.last_steps = options.decay_steps
        self.decay_shape = options.decay_shape
        self.min_lr_ratio = options.min_lr_ratio

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The rate, float32 scalar, for the integer scalar `step`."""
        s = tf.cast(step, tf.float32)
        done = (s - self.warmup_steps) / self.decay_steps
        done = tf.clip_by_value(done, 0.0, 1.0)
        if self.decay_method == "poly":
            left = 1.0 - done
        elif self.decay_method == "cos":
            left = 0.5 * (1.0 + tf.cos(math.pi * done))
        elif self.decay_method == "wsd" and self.last_steps:
            done = (s - self.stable_until) / self.last_steps
            done = tf.clip_by_value(done, 0.0, 1.0)
            if self.decay_shape == "1-sqrt":
                done = tf.sqrt(done)
            left = 1.0 - done
        else:
            left = tf.ones_like(done)
        floor = self.min_lr_ratio if self.decay_method != "constant" else 0.0
        rate = self.peak * (floor + (1.0 - floor) * left)
        if self.warmup_steps:
            warm = self.peak * s / self.warmup_steps
            rate = tf.where(s < self.warmup_steps, warm, rate)
        return rate
