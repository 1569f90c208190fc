"""Which tokens may be drawn, and that settings of a graph draw the same."""

import numpy as np
import pytest
import tensorflow as tf

from serving.generation import sampling


def test_filtering():
    logits = tf.math.log(tf.constant([[0.5, 0.3, 0.15, 0.05]]))
    kept = sampling.filter_logits(logits, 1.0, 2, 1.0)
    assert np.isfinite(kept).tolist() == [[True, True, False, False]]
    kept = sampling.filter_logits(logits, 1.0, 0, 0.6)
    assert np.isfinite(kept).tolist() == [[True, True, False, False]]
    kept = sampling.filter_logits(logits, 1.0, 0, 0.01)
    assert np.isfinite(kept).tolist() == [[True, False, False, False]]
    np.testing.assert_allclose(
        sampling.filter_logits(logits, 2.0, 0, 1.0), logits / 2.0
    )


def test_ties_with_the_last_one_that_is_kept_are_kept():
    logits = tf.constant([[1.0, 3.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    kept = np.isfinite(sampling.filter_logits(logits, 1.0, 2, 1.0))
    assert kept.tolist() == [[True, True, True, False], [True] * 4]
    # More than there are, and all.
    for top_k in (4, 9, 0):
        found = sampling.filter_logits(logits, 1.0, top_k, 1.0)
        np.testing.assert_array_equal(found, logits)


def test_top_p_is_of_what_top_k_and_temperature_leave():
    logits = tf.math.log(tf.constant([[0.4, 0.3, 0.2, 0.1]]))
    # Of the best two, 4/7 and 3/7: the first alone is below 0.6.
    kept = np.isfinite(sampling.filter_logits(logits, 1.0, 2, 0.56))
    assert kept.tolist() == [[True, False, False, False]]
    kept = np.isfinite(sampling.filter_logits(logits, 1.0, 2, 0.6))
    assert kept.tolist() == [[True, True, False, False]]
    # Cold: 0.53, 0.3, 0.13 and 0.03; hot, all are nearly alike.
    for temperature, count in ((0.5, 1), (50.0, 3)):
        found = sampling.filter_logits(logits, temperature, 0, 0.52)
        assert np.isfinite(found).sum() == count


def test_tokens_are_drawn_as_often_as_their_probability_says():
    shares = np.asarray([0.5, 0.3, 0.15, 0.05])
    logits = tf.tile(tf.math.log(tf.constant([shares], tf.float32)), [4000, 1])
    drawn = sampling.pick(logits, 1.0, 3, 1.0, tf.constant([5, 2])).numpy()
    found = np.bincount(drawn, minlength=4) / 4000
    np.testing.assert_allclose(found, [*shares[:3] / 0.95, 0], atol=0.03)
    again = sampling.pick(logits, 1.0, 3, 1.0, tf.constant([5, 2])).numpy()
    np.testing.assert_array_equal(drawn, again)
    other = sampling.pick(logits, 1.0, 3, 1.0, tf.constant([5, 3])).numpy()
    assert (drawn != other).any()


@pytest.mark.parametrize(
    "temperature, top_k", [(1.0, 0), (0.7, 2), (2.5, 9), (0.0, 0), (0.0, 2)]
)
def test_settings_that_a_graph_gets_pick_the_same_tokens(temperature, top_k):
    logits = tf.random.stateless_normal([64, 5], [3, 4])
    seed = tf.constant([7, 1])
    wanted = sampling.pick(logits, temperature, top_k, 1.0, seed)
    found = tf.function(sampling.choose, autograph=False)(
        logits,
        tf.constant(temperature),
        tf.constant(top_k),
        [tf.constant(7), tf.constant(1)],
    )
    assert found.dtype == tf.int32
    np.testing.assert_array_equal(found, wanted)
    if not temperature:
        np.testing.assert_array_equal(found, np.argmax(logits, -1))


def test_texts_of_other_lengths_are_taken_one_by_one():
    rows = tf.ragged.constant([[3, 1], [], [5, 2, 9]], tf.int32)
    tokens, log_probs = sampling.by_text(
        lambda ids: (
            tf.stack([tf.size(ids), tf.reduce_sum(ids)]),
            -tf.cast(tf.stack([tf.size(ids)] * 2), tf.float32),
        ),
        rows,
    )
    assert tokens.numpy().tolist() == [[2, 4], [0, 0], [3, 16]]
    assert log_probs.numpy().tolist() == [[-2, -2], [0, 0], [-3, -3]]


@pytest.mark.parametrize("temperature", [1e-30, 1e-38, 1e-45, 1e-60])
@pytest.mark.parametrize("top_p", [0.9, 1.0])
def test_next_to_nothing_takes_the_most_probable(temperature, top_p):
    logits = 10 * tf.random.stateless_normal([8, 50], [1, 2])
    seed = tf.constant([0, 1])
    found = sampling.pick(logits, temperature, 0, top_p, seed)
    np.testing.assert_array_equal(found, np.argmax(logits, -1))
