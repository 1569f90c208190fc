"""A plain Transformer language model of tf_keras layers, to be timed.

What one would write today without memory: learned absolute positions,
`MultiHeadAttention` under a causal mask, post-LN, one softmax, trained by
`train_on_batch`. It sees T tokens, not M + T.
"""

import tensorflow as tf
import tf_keras

from benchmarks.systems import workloads
from benchmarks.systems.workloads import Workload

LEARNING_RATE, CLIP = 2.5e-4, 0.25


class Positions(tf_keras.layers.Layer):
    """Adds a learned vector to every place."""

    def build(self, input_shape):
        self.table = self.add_weight("table", input_shape[1:])

    def call(self, x):
        """[B, T, D] -> [B, T, D]."""
        return x + self.table


def language_model(w: Workload) -> tf_keras.Model:
    """int32 [B, T] -> logits [B, T, V]."""
    layers = tf_keras.layers
    ids = tf_keras.Input([w.length], dtype=tf.int32)
    x = layers.Embedding(w.vocab, w.width)(ids)
    x = layers.Dropout(w.dropout)(Positions()(x))
    for _ in range(w.layers):
        attend = layers.MultiHeadAttention(w.heads, w.head_size)
        y = layers.Dropout(w.dropout)(attend(x, x, use_causal_mask=True))
        x = layers.LayerNormalization()(x + y)
        y = layers.Dense(w.inner, activation="relu")(x)
        y = layers.Dense(w.width)(layers.Dropout(w.dropout)(y))
        x = layers.LayerNormalization()(x + layers.Dropout(w.dropout)(y))
    return tf_keras.Model(ids, layers.Dense(w.vocab)(x))


def build(workload: Workload, options: dict):
    """A step function of the workload; `options`: jit."""
    tf_keras.utils.set_random_seed(workload.seed)
    model = language_model(workload)
    model.compile(
        tf_keras.optimizers.Adam(LEARNING_RATE, global_clipnorm=CLIP),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=bool(options.get("jit")),
    )
    batch = workloads.lm_batch(workload)
    ids, targets = (
        tf.constant(batch[name]) for name in ("input_ids", "target_ids")
    )
    return lambda: float(model.train_on_batch(ids, targets))
