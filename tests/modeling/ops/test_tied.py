"""A table that is read twice has the sum of both gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import fused, tied

IDS = np.array([[1, 4, 1], [0, 4, 4]], np.int32)


def random(seed, *shape):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.normal(size=shape), tf.float32)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("graph", [False, True])
def test_both_gradients_meet_in_one(graph, dtype):
    ids = tf.constant(IDS.astype(dtype))
    table, hidden = random(0, 6, 3), random(1, 5, 3)
    d_rows, d_logits = random(2, 2, 3, 3), random(3, 5, 6)

    def run():
        with tf.GradientTape() as tape:
            tape.watch(table)
            rows, again = tied.lookup(table, ids)
            logits = tf.matmul(hidden, again, transpose_b=True)
            loss = tf.reduce_sum(rows * d_rows) + tf.reduce_sum(
                logits * d_logits
            )
        return rows, tape.gradient(loss, table)

    rows, found = (tf.function(run, autograph=False) if graph else run)()
    np.testing.assert_array_equal(rows, table.numpy()[IDS])
    wanted = d_logits.numpy().T @ hidden.numpy()
    np.add.at(wanted, IDS, d_rows.numpy())
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_rows_alone_have_their_gradient_too():
    table, d_rows = random(0, 6, 3), random(2, 2, 3, 3)
    with tf.GradientTape() as tape:
        tape.watch(table)
        rows, _ = tied.lookup(table, tf.constant(IDS))
        loss = tf.reduce_sum(rows * d_rows)
    wanted = np.zeros([6, 3], np.float32)
    np.add.at(wanted, IDS, d_rows.numpy())
    found = tf.convert_to_tensor(tape.gradient(loss, table))
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_a_reader_keeps_what_a_head_reads_in_training_steps():
    variable = tf.Variable(random(0, 6, 3))
    kept = {}

    def run(name, tied_head, few):
        @tf.function(autograph=False)
        def read():
            if few:
                fused.expect_few_shapes()
            reader = tied.Reader(tied_head)
            rows = reader(variable, tf.constant(IDS))
            kept[name] = reader.tables
            return rows

        return read()

    wanted = variable.numpy()[IDS]
    for name, tied_head, few in (
        ("step", True, True),
        ("export", True, False),
        ("no head", False, True),
    ):
        np.testing.assert_array_equal(run(name, tied_head, few), wanted)
    assert [t.shape for t in kept.pop("step")] == [variable.shape]
    assert kept == {"export": None, "no head": None}


def test_rows_change_in_place_in_training_steps_alone():
    seen = {}
    for name, jit, few in (
        ("step", False, True),
        ("export", False, False),
        ("compiled", True, True),
    ):

        @tf.function(jit_compile=jit, autograph=False)
        def run(x, name=name, few=few):
            if few:
                fused.expect_few_shapes()
            seen[name] = (tied.scatters(), tied.adds_in_place())
            return x + 1.0

        run(tf.zeros([2]))
    assert seen == {
        "step": (True, True),
        "export": (True, False),
        "compiled": (False, False),
    }


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("graph", [False, True])
def test_logits_are_float32_and_their_gradient_of_the_activations(graph, dtype):
    hidden, table, upstream = (
        random(0, 5, 12),
        random(1, 7, 12),
        random(2, 5, 7),
    )

    def run():
        with tf.GradientTape() as tape:
            tape.watch([hidden, table])
            found = tied.logits(hidden, table, dtype)
        return found, tape.gradient(found, [hidden, table], upstream)

    found, gradients = (tf.function(run, autograph=False) if graph else run)()
    np.testing.assert_array_equal(
        found, tf.matmul(hidden, table, transpose_b=True)
    )
    # In float16 small probabilities would be zeros.
    own = tf.bfloat16 if dtype == tf.bfloat16 else tf.float32
    h, t, u = (tf.cast(x, own) for x in (hidden, table, upstream))
    wanted = tf.matmul(u, t), tf.matmul(u, h, transpose_a=True)
    for one, other in zip(gradients, wanted, strict=True):
        assert one.dtype == tf.float32
        np.testing.assert_array_equal(one, tf.cast(other, tf.float32))


def test_a_bfloat16_gradient_meets_that_of_the_rows():
    """As in a training step, where rows are added in place."""
    table, hidden = random(0, 6, 3), random(1, 5, 3)
    d_rows, d_logits = random(2, 2, 3, 3), random(3, 5, 6)

    @tf.function(autograph=False)
    def run():
        fused.expect_few_shapes()
        with tf.GradientTape() as tape:
            tape.watch(table)
            rows, again = tied.lookup(table, tf.constant(IDS))
            logits = tied.logits(hidden, again, tf.bfloat16)
            loss = tf.reduce_sum(rows * d_rows)
            loss += tf.reduce_sum(logits * d_logits)
        return tape.gradient(loss, table)

    found = run()
    assert "InplaceAdd" in {
        op.type for op in run.get_concrete_function().graph.get_operations()
    }
    narrow = [tf.cast(x, tf.bfloat16) for x in (d_logits, hidden)]
    wanted = tf.cast(tf.matmul(*narrow, transpose_a=True), tf.float32).numpy()
    np.add.at(wanted, IDS, d_rows.numpy())
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
