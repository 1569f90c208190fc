"""Which inputs an output depends on, by gradients."""

import numpy as np
import tensorflow as tf


def influence(model, row_of, **call):
    """[B, rows, T]: size of d(row of an output) / d(embedding of token j)."""
    ids = call["input_ids"]
    table = model.encoder.embeddings.lookup_table
    # One row of the table per place, so that a gradient row is one token's.
    assert len(np.unique(ids)) == ids.size
    rows = []
    with tf.GradientTape(persistent=True) as tape:
        values = tf.convert_to_tensor(table)
        tape.watch(values)
        output = row_of(_run_with_table(model, values, call))
        parts = tf.unstack(output, axis=1)
    for part in parts:
        gradient = tf.convert_to_tensor(
            tape.gradient(part, values, tf.cos(tf.range(12.0)) + part * 0)
        )
        size = tf.reduce_sum(tf.abs(tf.gather(gradient, ids)), -1)
        rows.append(size)
    return tf.stack(rows, 1).numpy()


def _run_with_table(model, values, call):
    """Calls the encoder with `values` in place of its embedding table."""
    embeddings = model.encoder.embeddings
    original = embeddings.call
    embeddings.call = lambda ids, reader: tf.gather(values, ids)
    try:
        return model.encoder(**call)
    finally:
        embeddings.call = original
