"""Local layers see so far and no farther."""

import numpy as np
import tensorflow as tf

from modeling import PretrainingModel
from modeling.encoders.modernbert.config import ModernBertConfig

TINY = ModernBertConfig(
    vocab_size=23,
    d_model=8,
    n_layer=4,
    n_head=2,
    d_inner=6,
    local_window=4,
    max_position_embeddings=64,
)


def test_local_layers_see_so_far_and_no_farther():
    config = TINY.replace(n_layer=2, global_every=2)
    model = PretrainingModel(config).encoder
    model.blocks[0].o_kernel.assign(tf.zeros_like(model.blocks[0].o_kernel))
    ids = np.arange(12)[np.newaxis] % 23
    before = model(ids).sequence_output
    ids[0, 5] = 20
    changed = np.abs(model(ids).sequence_output - before).max(-1)[0] > 0
    assert np.flatnonzero(changed).tolist() == [3, 4, 5, 6, 7]
