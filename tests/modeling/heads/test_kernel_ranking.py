"""Scores of a ranking model."""

import numpy as np
import tensorflow as tf

from modeling import XLNetConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.heads.kernel_ranking import KernelRankingModel
from modeling.models.half_precision import in_bfloat16


def test_scores_are_float32_in_a_model_of_half_precision():
    """The same vectors give the same scores, to the bit."""
    config = XLNetConfig(
        vocab_size=11, d_model=6, n_layer=1, n_head=2, d_head=3, d_inner=5
    )

    def build():
        return KernelRankingModel(config, (0.5, 1.0), (0.1, 0.2), 1, True)

    model = build()
    model.kernel_weights.assign([0.3, -0.7, 0.11])
    model.kernel_piece_weights.assign(np.linspace(0.1, 1.3, 11))
    half = in_bfloat16(build, model)
    rng = np.random.default_rng(5)
    rows = (
        rng.standard_normal((2, 3, 6), np.float32),
        rng.integers(0, 11, (2, 3)),
        np.array([[1, 1, 0], [1, 1, 1]]),
        rng.standard_normal((2, 4, 6), np.float32),
        np.array([[1, 1, 1, 1], [1, 0, 0, 0]]),
        rng.standard_normal(2).astype(np.float32),
    )
    found = half(*rows)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, model(*rows))


def test_the_last_layer_is_read_behind_its_norm():
    """As transformers and serving.embed give it; it was read before."""
    config = ModernBertConfig(
        vocab_size=11, d_model=6, n_layer=2, n_head=1, d_inner=5, local_window=4
    )
    model = KernelRankingModel(config, (0.5, 1.0), (0.1, 0.2), config.n_layer)
    model.encoder.final_norm.gamma.assign(np.linspace(0.2, 3.0, 6))
    ids = tf.constant([[1, 4, 9, 2], [3, 3, 5, 7]])
    mask = tf.ones_like(ids)
    wanted = model.encoder(ids, input_mask=mask).sequence_output
    found = model.vectors(ids, tf.zeros_like(ids), mask)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
