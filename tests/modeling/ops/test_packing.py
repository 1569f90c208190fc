"""Greedy best fit, and rows that come back from where they were packed."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import packing

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden/packing.json"


def test_best_fit_is_that_of_the_golden_batches():
    """What does not fit waits for the next batch, in reversed order."""
    case = json.loads(GOLDEN.read_text())
    width, rows, number = (
        case["row_length"],
        case["rows"],
        case["first_id"],
    )
    texts = []
    for length in case["lengths"]:
        texts.append(list(range(number, number + length)))
        number += length
    waiting: list[list[int]] = []
    for wanted in case["batches"]:
        while texts and len(waiting) < case["buffer_size"]:
            waiting += texts[: case["src_batch_size"]]
            del texts[: case["src_batch_size"]]
        lengths = tf.constant([len(t) for t in waiting], tf.int32)
        row, first = packing.best_fit(lengths, rows, width)
        made = np.full([rows, width], -1)
        rest = []
        for text, r, f in zip(waiting, row.numpy(), first.numpy(), strict=True):
            if r < 0:
                rest.append(text)
            else:
                made[r, f : f + len(text)] = text
        np.testing.assert_array_equal(made, wanted["input_ids"])
        waiting = rest[::-1]


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_back(seed):
    rng = np.random.default_rng(seed)
    n, t = 9, 12
    # Anywhere in a row: the layout before CLS is moved pads on the left.
    real = rng.random([n, t]) < rng.random([n, 1])
    real[2] = False
    ids = rng.integers(1, 99, [n, t]) * real
    found = packing.find_places(tf.constant(real))
    counts = packing.row_counts(n, 4)
    assert counts == [3, 6, 9] and packing.row_counts(2, 16) == [1, 2]
    needed = int(found.needed)
    assert -(-real.sum() // t) <= needed < n
    packed = found.packing(n)
    packed_ids = packed.pack(tf.constant(ids)).numpy()
    documents, positions = packed.documents(), packed.positions().numpy()
    assert not packed_ids[needed:].any()
    used = packed.source.numpy() >= 0
    assert used.sum() == real.sum()
    for i in range(n):
        own = documents.numpy() == i
        np.testing.assert_array_equal(packed_ids[own], ids[i][real[i]])
        np.testing.assert_array_equal(positions[own], np.flatnonzero(real[i]))
        assert len(set(np.nonzero(own)[0])) <= 1  # one packed row
    states = tf.constant(rng.normal(size=[n, t, 3]), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(states)
        back = packed.unpack(states)
        weights = tf.constant(
            rng.normal(size=[n, t, 3]) * real[..., None], tf.float32
        )
        total = tf.reduce_sum(back * weights)
    gradient = tape.gradient(total, states).numpy()
    for i in range(n):
        own = documents.numpy() == i
        np.testing.assert_array_equal(
            back.numpy()[i][real[i]], states.numpy()[own]
        )
        np.testing.assert_array_equal(gradient[own], weights[i][real[i]])
    assert not gradient[~used].any()
