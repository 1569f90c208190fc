"""Segments with memory: known and unknown widths give the same."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import ClassificationModel, MultipleChoiceModel, XLNetConfig
from modeling.long_document import LongDocument

T = 6
CONFIG = XLNetConfig(
    vocab_size=31,
    d_model=20,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=24,
    init_std=0.4,
    mem_len=T,
)


def rows(lengths, width, options=0):
    """Left-padded rows of `width` with so many real tokens."""
    rng = np.random.default_rng(1)
    shape = (len(lengths), width)
    mask = np.arange(width) >= width - np.array(lengths)[:, None]
    arrays = [
        np.where(mask, rng.integers(9, 31, shape), 0),
        np.where(mask, 0, 4),
        mask.astype(int),
    ]
    if options:
        arrays = [x.reshape(-1, options, width) for x in arrays]
    return [tf.constant(x, tf.int32) for x in arrays]


@pytest.mark.parametrize("width", [4, 6, 7, 12, 20])
@pytest.mark.parametrize("options", [0, 2])
def test_unknown_widths_give_what_known_ones_give(width, options):
    tf.keras.utils.set_random_seed(3)
    model = MultipleChoiceModel(CONFIG)
    if not options:
        model = ClassificationModel(CONFIG, num_labels=2)
    reader = LongDocument(model, T)
    inputs = rows([width, 3, width - 1, 1], width, options)
    spec = tf.TensorSpec([None] * len(inputs[0].shape), tf.int32)
    unknown = tf.function(reader.__call__, input_signature=[spec] * 3)
    found = unknown(*inputs)
    np.testing.assert_allclose(found, reader(*inputs), atol=2e-6)
    if T < width <= 3 * T:
        # Two layers reach two segments back: the first token counts, padding
        # in front of the row does not.
        padded = [
            tf.pad(x, [[0, 0]] * (x.shape.rank - 1) + [[9, 0]]) for x in inputs
        ]
        np.testing.assert_allclose(found, reader(*padded), atol=2e-6)
        changed = inputs[0].numpy()
        changed[(0,) * (changed.ndim - 1) + (0,)] += 1
        other = unknown(tf.constant(changed % 31), *inputs[1:])
        assert np.abs(other - found).max() > 1e-6


def test_a_model_without_enough_memory_is_refused():
    model = ClassificationModel(CONFIG.replace(mem_len=4), num_labels=2)
    with pytest.raises(ValueError, match="must be at least 6, found 4"):
        LongDocument(model, T)
