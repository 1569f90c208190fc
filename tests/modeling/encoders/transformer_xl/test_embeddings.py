"""Tables of rows and of the softmax have one gradient."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.encoders.transformer_xl import embeddings
from tests.modeling.encoders.transformer_xl.toy_models import toy


@pytest.mark.long
@pytest.mark.parametrize("chunk", [None, 3])
@pytest.mark.parametrize("div_val", [1, 2])
def test_gradients_of_rows_and_softmax_meet_in_one_array(
    monkeypatch, div_val, chunk
):
    """No second table is made and added; a large cluster's comes in pieces."""
    monkeypatch.setattr(
        embeddings, "_piece_sizes", lambda size, _: [size - 2, 2]
    )
    model = toy(div_val=div_val)
    variables = model.encoder.embeddings.tables
    ids = tf.random.stateless_uniform([2, 8], [1, 3], 0, 31, tf.int32)

    def run(shared):
        with tf.GradientTape() as tape:
            output = model(ids, training=True, seed=tf.constant([1, 2]))
            losses = model.token_losses(
                output.sequence_output,
                ids[:, ::-1],
                chunk,
                tables=output.tables if shared else None,
            )
            loss = tf.reduce_sum(losses * tf.range(1.0, 9.0))
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    together, apart = (
        tf.function(lambda shared=s: run(shared), autograph=False)
        for s in (True, False)
    )
    for ours, theirs in zip(together(), apart(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
        assert np.abs(ours).max() > 0

    def sums(function):
        shapes = [v.shape for v in variables]
        operations = function.get_concrete_function().graph.get_operations()
        return [
            op
            for op in operations
            if op.type == "AddN" and op.outputs[0].shape in shapes
        ]

    assert not sums(together)
    assert len(sums(apart)) == len(variables)
    assert model(ids).tables is None
