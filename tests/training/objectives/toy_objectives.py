"""Objectives that no command has, and their batches."""

import tensorflow as tf

from tests.helpers.runs import toy
from training.objectives.contract import LossOutput, Objective
from training.objectives.language_model import LanguageModelObjective

MASK = 0


class MaskedLanguageModel(LanguageModelObjective):
    """Ids at `target_positions` from the row's other ids: no memory."""

    name = "masked_lm"
    config = toy.CONFIG

    build_model = toy.ToyObjective.build_model
    named_variables = toy.ToyObjective.named_variables

    def loss(self, model, batch, memory, training, seed):
        assert memory is None
        positions = batch["target_positions"]  # [B, P]
        hidden = tf.gather(model.table, batch["input_ids"])  # [B, T, D]
        hidden += tf.reduce_mean(hidden, 1, keepdims=True)
        hidden = tf.gather(hidden, positions, batch_dims=1)  # [B, P, D]
        logits = tf.einsum("bpd,dv->bpv", hidden, model.kernel) + model.bias
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch["target_ids"], logits
        )
        total = tf.reduce_sum(losses)
        count = tf.cast(tf.size(losses), tf.float32)
        return LossOutput(total, count, {"lm_loss": (total, count)}, {})


class MeanObjective(Objective):
    """The mean of a weight: none of what a language model has."""

    name = "mean"
    config = toy.CONFIG

    build_model = toy.ToyObjective.build_model
    named_variables = toy.ToyObjective.named_variables

    def loss(self, model, batch, memory, training, seed):
        values = tf.reduce_mean(tf.gather(model.table, batch["input_ids"]), -1)
        total = tf.reduce_sum(tf.square(values))
        return LossOutput(total, tf.cast(tf.size(values), tf.float32), {}, {})


def input_fn(params):
    def masked(batch):
        ids = batch["input_ids"]
        places = tf.constant([[0, 2]] * params["batch_size"])  # [B, P]
        hidden = tf.reduce_max(tf.one_hot(places, ids.shape[1]), 1)  # [B, T]
        return {
            "input_ids": tf.where(hidden > 0, MASK, ids),
            "target_positions": places,
            "target_ids": tf.gather(ids, places, batch_dims=1),
        }

    return toy.input_fn(params).map(masked)


def held_out(params):
    return input_fn(params).take(2)
