"""A ring of slots: distances by hand, and the plain form in text order."""

import types

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import relative, ring
from modeling.attention.attend import ALL
from modeling.attention.relative import Keys, Queries
from modeling.attention.ring import Place, RingKeys

N, B, M, H = 3, 2, 4, 5


@pytest.mark.parametrize(
    "token, slot, distances, seen",
    [
        (0, 0, [4, 3, 2, 1, 0], [0, 0, 0, 0, 1]),
        (2, 2, [2, 1, 4, 3, 0], [1, 1, 0, 0, 1]),
        (4, 0, [4, 3, 2, 1, 0], [1, 1, 1, 1, 1]),
        (7, 3, [3, 2, 1, 4, 0], [1, 1, 1, 1, 1]),
    ],
)
def test_a_slot_is_as_far_as_the_token_that_lies_in_it(
    token, slot, distances, seen
):
    place = Place.of(tf.constant(token), M)
    assert int(place.slot) == slot
    assert place.distances.numpy().tolist() == distances
    assert (place.mask.numpy() == 0).astype(int).tolist() == seen
    zeros = Place.of(tf.constant(token), M, hide=False)
    assert not zeros.mask.numpy().any()


def random(seed, *shape):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.normal(size=shape), tf.float32)


def test_the_vectors_are_those_of_the_text_in_order():
    token = 6  # slots hold tokens 4, 5, 2, 3
    keys = RingKeys(
        random(0, 2, N, B, M, H),
        random(1, 2, N, B, 1, H),
        random(2, N, M + 1, H),
        Place.of(tf.constant(token), M),
        (),
    )
    queries = Queries(random(3, N, B, 1, H), random(4, N, B, 1, H), None)
    found = keys.attend(queries, ALL)
    line = tf.gather(keys.cache, [2, 3, 0, 1], axis=3)
    k, v = tf.concat([line, keys.new], 3)
    # The first column is of a distance that no key of a single row has.
    table = tf.concat([tf.zeros([N, 1, H]), keys.r[:, ::-1]], 1)
    plain = Keys(k, v, table[:, tf.newaxis], 1, M + 1)
    wanted = relative.attend(queries, plain)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    written = keys.written()
    np.testing.assert_array_equal(written[:, :, :, 2], keys.new[:, :, :, 0])
    for slot in (0, 1, 3):
        np.testing.assert_array_equal(
            written[:, :, :, slot], keys.cache[:, :, :, slot]
        )


@pytest.mark.parametrize("count, kept", [(2, 2), (4, 4), (6, 4), (9, 3)])
def test_a_prompts_tokens_lie_in_their_slots(count, kept):
    numbers = np.arange(count - kept, count, dtype=np.float32) + 1
    memory = np.zeros([2, 1, 1, kept, 1], np.float32) + numbers[:, np.newaxis]
    found = ring.fill(tf.constant(memory), count, M)[0, 0, 0, :, 0].numpy()
    wanted = np.zeros(M)
    for number in range(count - kept, count):
        wanted[number % M] = number + 1
    assert found.tolist() == wanted.tolist()


def test_shared_biases_or_the_layers_own():
    class Toy:
        kernels = {"k": "k", "v": "v"}
        bias_names = ("r_w_bias", "r_r_bias")
        r_w_bias, r_r_bias = "u", "v"

    heads = types.SimpleNamespace(heads=lambda *_: [tf.zeros([1])] * 2)
    context = types.SimpleNamespace(matmul=heads)
    for untied, wanted in ((True, ("u", "v")), (False, ("a", "b"))):
        Toy.untie_r = untied
        made = RingKeys.of(Toy, None, None, None, None, ("a", "b"), context)
        assert made.biases == wanted
