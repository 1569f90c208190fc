"""A small objective with memory, dropout and directions, and its data.

Fast to trace, and every property of the loop shows in its numbers: the loss
depends on the memory of the row, on its direction and on the dropout seed.
"""

import numpy as np
import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling import XLNetConfig
from training.objectives.contract import LossOutput, Memory
from training.objectives.language_model import LanguageModelObjective
from training.run_options import OptimizerOptions, RunOptions, StrategyOptions

CONFIG = XLNetConfig(
    vocab_size=11,
    d_model=4,
    n_layer=1,
    n_head=1,
    d_head=2,
    d_inner=3,
    mem_len=3,
    reuse_len=2,
)
LENGTH = 5


class ToyModel(tf_keras.Model):
    """An embedding and a dense layer."""

    def __init__(self):
        super().__init__()
        init = tf_keras.initializers.RandomNormal(0.0, 0.5, seed=3)
        self.table = self.add_weight(
            "table", [CONFIG.vocab_size, CONFIG.d_model], initializer=init
        )
        self.kernel = self.add_weight(
            "kernel", [CONFIG.d_model, CONFIG.vocab_size], initializer=init
        )
        self.bias = self.add_weight(
            "bias", [CONFIG.vocab_size], initializer="zeros"
        )
        self.built = True


class ToyObjective(LanguageModelObjective):
    """Next-token prediction from a token and the mean of the memory."""

    name = "pretraining"
    config = CONFIG
    memory_len = 3

    def __init__(self, groups=2, dropout=0.0):
        super().__init__()
        self.row_groups = groups
        self.dropout = dropout

    def build_model(self):
        return ToyModel()

    def named_variables(self, model):
        return {
            "model/transformer/word_embedding/lookup_table": model.table,
            "model/transformer/layer_0/ff/layer_1/kernel": model.kernel,
            "model/lm_loss/bias": model.bias,
        }

    def loss(self, model, batch, memory, training, seed):
        ids = batch["input_ids"]
        x = tf.gather(model.table, ids)  # [B, T, D]
        slots = tf.range(self.memory_len)[tf.newaxis]
        valid = slots >= self.memory_len - memory.length[:, tf.newaxis]
        valid = tf.cast(valid, tf.float32)[:, :, tf.newaxis]
        past = tf.reduce_sum(memory.layers[0] * valid, 1, keepdims=True)
        rows = tf.shape(ids)[0]
        sign = tf.ones([rows, 1, 1])
        if self.row_groups == 2:
            half = rows // 2
            sign = tf.concat([tf.ones([half, 1, 1]), -tf.ones([half, 1, 1])], 0)
        h = x + 0.3 * past + 0.1 * sign
        if training and self.dropout:
            h = tf.nn.experimental.stateless_dropout(h, self.dropout, seed)
        logits = tf.einsum("btd,dv->btv", h, model.kernel) + model.bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["target_ids"], logits
        )
        weights = batch["target_weights"]
        new = tf.concat([memory.layers[0], x[:, :2]], 1)[:, -3:]
        length = tf.minimum(memory.length + 2, self.memory_len)
        total = tf.reduce_sum(losses * weights)
        count = tf.reduce_sum(weights)
        return LossOutput(
            total,
            count,
            {"lm_loss": (total, count)},
            {},
            Memory((tf.stop_gradient(new),), length),
        )


def input_fn(params, steps=None):
    """Global batches by global row; a pure function of the step."""

    def batches():
        step = params["start_step"]
        rows = params["batch_size"]
        while steps is None or step < steps:
            rng = np.random.default_rng(step)
            yield {
                "input_ids": rng.integers(0, 11, [rows, LENGTH], np.int32),
                "target_ids": rng.integers(0, 11, [rows, LENGTH], np.int32),
                "target_weights": rng.integers(0, 2, [rows, LENGTH]).astype(
                    np.float32
                ),
                "reset_memory": (np.arange(rows) + step) % 7 == 0,
            }
            step += 1

    b = params["batch_size"]
    return tf.data.Dataset.from_generator(
        batches,
        output_signature={
            "input_ids": tf.TensorSpec([b, LENGTH], tf.int32),
            "target_ids": tf.TensorSpec([b, LENGTH], tf.int32),
            "target_weights": tf.TensorSpec([b, LENGTH], tf.float32),
            "reset_memory": tf.TensorSpec([b], tf.bool),
        },
    )


def run_options(model_dir, **changes):
    """Options of a short run on one CPU."""
    strategy = StrategyOptions(
        distribution_strategy=changes.pop("distribution", "one_device"),
        num_virtual_replicas=changes.pop("replicas", 0),
        jit_compile=changes.pop("jit_compile", False),
        seed=5,
    )
    values = dict(
        model_dir=str(model_dir),
        train_steps=12,
        train_batch_size=8,
        eval_batch_size=8,
        iterations=4,
        save_steps=6,
        progress="lines",
        optimizer=OptimizerOptions(
            learning_rate=0.05, warmup_steps=2, weight_decay=0.01, clip=0.5
        ),
        strategy=strategy,
    )
    return RunOptions(**(values | changes))


def broken(params):
    """`input_fn` of a reader that finds a damaged record."""

    def fail():
        yield from ()
        raise UserError("part-0.tfrecord record 7: id 99 is out of range")

    spec = input_fn(params).element_spec
    return tf.data.Dataset.from_generator(fail, output_signature=spec)
