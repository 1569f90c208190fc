"""The original's stacked layers."""

import numpy as np

from modeling import XLNetConfig
from modeling.encoders.xlnet import original

SMALL_CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


def test_layers_are_stacked_by_number():
    scope = "model/transformer/"
    arrays = {
        f"{scope}layer_{i}/rel_attn/seg_embed": np.full([2, 1, 1], i)
        for i in (11, 2, 0, 10, 1, 3, 4, 5, 6, 7, 8, 9)
    }
    stacked = original.stack(arrays)[scope + "seg_embed"]
    assert stacked[:, 0, 0, 0].tolist() == list(range(12))
    again = original.unstack(
        {scope + "seg_embed": stacked}, SMALL_CONFIG, "here"
    )
    for name, value in arrays.items():
        np.testing.assert_array_equal(again[name], value)
