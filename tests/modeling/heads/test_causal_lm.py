"""Segments one after the other, starts of texts, losses of every target."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel

CONFIG = TransformerXLConfig(
    vocab_size=19,
    n_layer=2,
    d_model=6,
    n_head=3,
    d_head=4,
    d_inner=8,
    mem_len=4,
    dropout=0.0,
    init_std=0.4,
)
IDS = np.random.default_rng(0).integers(0, 19, (2, 9))


@pytest.mark.parametrize("start", ["hidden", "zeros"])
def test_segments_are_read_on_from_an_empty_memory(start):
    model = CausalLanguageModel(CONFIG.replace(memory_start=start))
    layers, length = model.empty_memory(2)
    assert [layer.shape.as_list() for layer in layers] == [[2, 4, 6]] * 2
    first = model.read_on(IDS[:, :5], layers, length)
    second = model.read_on(IDS[:, 5:], first.new_memory, tf.fill([2], 4))
    kept = model(
        IDS[:, 5:],
        memory=first.new_memory,
        memory_length=None if start == "zeros" else tf.fill([2], 4),
    )
    np.testing.assert_allclose(
        second.sequence_output, kept.sequence_output, atol=1e-6
    )


def test_with_zeros_a_row_without_memory_sees_zero_vectors():
    model = CausalLanguageModel(CONFIG.replace(memory_start="zeros"))
    noise = tuple(tf.ones([2, 4, 6]) * 7.0 for _ in range(2))
    found = model.read_on(IDS[:, :3], noise, tf.constant([0, 4]))
    rows = [tf.concat([layer[:1] * 0.0, layer[1:]], 0) for layer in noise]
    wanted = model(IDS[:, :3], memory=tuple(rows))
    np.testing.assert_allclose(
        found.sequence_output, wanted.sequence_output, atol=1e-6
    )


@pytest.mark.parametrize("chunk", [None, 4])
def test_losses_are_minus_the_targets_log_probabilities(chunk):
    model = CausalLanguageModel(CONFIG)
    hidden = model(IDS).sequence_output
    log_probs = model.log_probs(hidden).numpy()
    assert log_probs.shape == (2, 9, 19)
    np.testing.assert_allclose(np.exp(log_probs).sum(-1), 1.0, atol=1e-5)
    wanted = -np.take_along_axis(log_probs, IDS[..., None], -1)[..., 0]
    losses = model.token_losses(hidden, tf.constant(IDS), chunk)
    np.testing.assert_allclose(losses, wanted, atol=1e-5)
