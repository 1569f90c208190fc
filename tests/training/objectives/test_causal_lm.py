"""Losses of left-to-right models: which tokens count, and their memory."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers.runs.lm import ADAPTIVE
from training.objectives.build import build_objective
from training.objectives.causal_lm import later_half
from training.objectives.contract import Memory

CONFIG = ADAPTIVE
B, T = 3, 4


def make_batch(length=T):
    rng = np.random.default_rng(0)
    stream = rng.integers(0, 29, [B, length + 1]).astype(np.int32)
    weights = (rng.random([B, length]) < 0.8).astype(np.float32)
    return {
        "input_ids": tf.constant(stream[:, :-1]),
        "target_ids": tf.constant(stream[:, 1:]),
        "target_weights": tf.constant(weights),
        "reset_memory": tf.constant([True] * B),
    }


def test_half_loss_counts_the_later_half_in_training_only():
    config = CONFIG.replace(mem_len=0)
    whole = build_objective("language_model", config)
    half = build_objective("language_model", config, half_loss=True)
    tf.keras.utils.set_random_seed(1)
    model = whole.build_model()
    batch = make_batch()
    late = batch | {
        "target_weights": batch["target_weights"] * [0.0, 0.0, 1.0, 1.0]
    }
    seed = tf.constant([1, 2])
    found = half.loss(model, batch, None, True, seed)
    wanted = whole.loss(model, late, None, True, seed)
    assert found.loss_sum == wanted.loss_sum
    assert found.weight_sum == wanted.weight_sum > 0
    evaluated = half.loss(model, batch, None, False, None)
    assert evaluated.weight_sum == tf.reduce_sum(batch["target_weights"])


@pytest.mark.parametrize(
    "length, wanted",
    [(1, [1]), (2, [0, 1]), (5, [0, 0, 1, 1, 1]), (6, [0, 0, 0, 1, 1, 1])],
)
def test_the_later_half_of_an_odd_length_is_the_larger_one(length, wanted):
    found = later_half(tf.zeros([B, length]))
    assert found.dtype == tf.float32
    assert found.numpy().tolist() == [wanted]


def test_a_segment_after_its_memory_has_the_losses_of_the_whole_text():
    """Two segments read on are one of both; memory comes out of each."""
    objective = build_objective("language_model", CONFIG)
    assert objective.memory_len == 6 and objective.pads_left is False
    tf.keras.utils.set_random_seed(2)
    model = objective.build_model()
    text = make_batch(2 * T)
    memory = Memory(*model.empty_memory(B))
    loss = count = 0.0
    for begin in (0, T):
        part = {
            name: x[:, begin : begin + T] if x.shape.rank == 2 else x
            for name, x in text.items()
        }
        found = objective.loss(model, part, memory, False, None)
        memory = found.new_memory
        loss, count = loss + found.loss_sum, count + found.weight_sum
        assert found.metrics["lm_loss"] == (found.loss_sum, found.weight_sum)
    assert memory.length.numpy().tolist() == [6] * B
    assert [x.shape for x in memory.layers] == [(B, 6, 8)] * 2
    whole = build_objective("language_model", CONFIG.with_memory(0))
    wanted = whole.loss(model, text, None, False, None)
    assert wanted.new_memory == ()
    assert float(count) == float(wanted.weight_sum)
    np.testing.assert_allclose(loss, wanted.loss_sum, rtol=1e-5)
