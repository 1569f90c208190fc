"""Losses by context: the windows are exact, and the model sees no more."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from studies.language import context_losses
from tests.modeling.attention.toy_models import ids_of, toy


class Stream:
    """Tokens that are there at once."""

    def __init__(self, ids):
        self.ids = ids

    def read(self, start, count):
        assert start >= 0
        found = self.ids[start : start + count]
        assert len(found) == count
        return found


def losses(encoding, contexts, block, segment, whole, positions=3):
    model = toy(encoding, mem_len=30 if whole else 0)
    ids = ids_of(60).numpy()
    starts = context_losses.draw_blocks(60, contexts[-1], block, positions, 1)
    reader = context_losses.WindowReader(model, segment, whole)
    found = context_losses.measure(
        reader, Stream(ids), starts, contexts, block, 2
    )
    return model, ids, starts, found


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 3])
def test_a_token_is_predicted_from_exactly_its_context(block):
    contexts = (4, 9)
    model, ids, starts, found = losses("relative", contexts, block, 5, True)
    for row, context in zip(found, contexts, strict=True):
        for i, start in enumerate(starts):
            for j in {0, block - 1}:
                at = start + j
                window = ids[start - context : at]
                output = model(window[np.newaxis])
                log_probs = model.log_probs(output.sequence_output)[0, -1]
                np.testing.assert_allclose(
                    row[i * block + j], -log_probs[ids[at]], atol=1e-5
                )


@pytest.mark.slow
def test_a_model_of_places_sees_its_segment():
    contexts = (3, 7, 9, 16)
    model, ids, starts, found = losses("absolute", contexts, 1, 7, False)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_array_equal(found[1], found[3])
    window = tf.constant(ids[np.newaxis, starts[0] - 7 : starts[0]])
    log_probs = model.log_probs(model(window).sequence_output)[0, -1]
    np.testing.assert_allclose(
        found[1][0], -log_probs[ids[starts[0]]], atol=1e-5
    )
    reader = context_losses.WindowReader(model, 2, False)
    with pytest.raises(UserError, match="longer than the model's segment"):
        reader.losses(np.zeros([1, 9], np.int32), 3)


def test_positions_are_drawn_by_seed_alone():
    one = context_losses.draw_blocks(500, 90, 4, 41, 7)
    assert len(one) == 11 and one[0] >= 90 and one[-1] + 4 <= 500
    assert (np.diff(one) >= 4).all()
    assert (context_losses.draw_blocks(500, 90, 4, 41, 7) == one).all()
    assert (context_losses.draw_blocks(500, 90, 4, 41, 8) != one).any()
    with pytest.raises(UserError, match="has 8 positions with 90"):
        context_losses.draw_blocks(100, 90, 4, 9, 7)
