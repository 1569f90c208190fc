"""Scores of a ranking model."""

import numpy as np

from modeling import XLNetConfig
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
