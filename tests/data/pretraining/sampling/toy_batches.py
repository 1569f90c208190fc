"""Toy pretraining batches with known symbols."""

import numpy as np
import tensorflow as tf

from common.contract import symbols

IDS = symbols.SymbolIds()
V, T, P = 40, 24, 5


def make_batch(rows=6, seed=0, a=12):
    """[A SEP B SEP CLS], `a` tokens in A; P targets outside of SEP and CLS."""
    rng = np.random.default_rng(seed)
    b = T - a - 3
    ids = rng.integers(9, V, [rows, T])
    ids[:, [a, T - 2]] = IDS.sep
    ids[:, -1] = IDS.cls
    able = [i for i in range(T - 1) if i not in (a, T - 2)]
    positions = np.stack([rng.choice(able, P, False) for _ in range(rows)])
    weights = np.ones([rows, P], np.float32)
    weights[1, 3:] = 0
    positions[1, 3:] = 0
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "segment_ids": tf.constant(
            [[0] * (a + 1) + [1] * (b + 1) + [2]] * rows, tf.int32
        ),
        "input_mask": tf.ones([rows, T], tf.int32),
        "ranks": tf.zeros([rows, T], tf.int32),
        "target_positions": tf.constant(positions, tf.int32),
        "target_ids": tf.constant(
            np.take_along_axis(ids, positions, 1), tf.int32
        ),
        "target_weights": tf.constant(weights),
        "next_sentence_label": tf.constant(
            rng.integers(0, 2, [rows]), tf.int32
        ),
        "row_weight": tf.ones([rows]),
    }
