"""Fused kernels give the numbers of the plain functions, both ways."""

import numpy as np
import pytest
import tensorflow as tf

from common.process import tpu_build
from modeling.attention import positions, relative
from modeling.attention.attend import Stream
from modeling.ops import dropout
from modeling.ops import fused as fusion
from modeling.ops.context import LayerContext
from modeling.ops.normalization import LayerNorm

RANDOM = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch):
    """Toy tensors are fused, too."""
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)


def random(*shape):
    return tf.constant(RANDOM.normal(size=shape), tf.float32)


def value_and_gradients(function, tensors, upstream):
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    return y, tape.gradient(y, tensors, upstream)


def check_same(function, tensors, upstream):
    eager = value_and_gradients(function, tensors, upstream)
    graph = tf.function(
        lambda: value_and_gradients(function, tensors, upstream),
        autograph=False,
    )()
    for a, b in zip(
        tf.nest.flatten(eager), tf.nest.flatten(graph), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_only_large_tensors_of_known_shape_in_graphs_are_fused(monkeypatch):
    assert not fusion.worthwhile(random(3, 4))
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 4])], autograph=False)
    def unknown(x):
        seen.append(fusion.worthwhile(x))
        fusion.expect_few_shapes()
        seen.append(fusion.worthwhile(x))
        return x

    @tf.function(autograph=False)
    def known(x):
        seen.append(fusion.worthwhile(x, None))
        monkeypatch.setattr(fusion, "MIN_ELEMENTS", 100)
        seen.append(fusion.worthwhile(x, None))
        return x

    unknown(random(3, 4))
    known(random(3, 4))
    assert seen == [False, True, True, False]


def test_few_shapes_are_expected_in_the_whole_graph_and_no_other():
    """In branches, in what replicas trace, and behind the one that said so."""
    seen = {}
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    def look(where, x):
        seen[where] = fusion.worthwhile(x)
        return x

    def said(x):
        fusion.expect_few_shapes()
        return x

    @tf.function(input_signature=[tf.TensorSpec([None, 4])], autograph=False)
    def training(x):
        tf.cond(x[0, 0] > 0, lambda: said(x), lambda: x)
        look("after the branch", x)
        tf.cond(x[0, 0] > 0, lambda: look("another branch", x), lambda: x)
        strategy.run(look, ["a replica", x])

    @tf.function(input_signature=[tf.TensorSpec([None, 4])], autograph=False)
    def serving(x):
        look("another graph", x)

    for function in (training, serving):
        function(random(3, 4))
    fusion.expect_few_shapes()  # outside of graphs nothing is compiled
    assert not fusion.worthwhile(random(3, 4))
    assert {where for where, yes in seen.items() if not yes} == {
        "another graph"
    }


def kernels(function: tf.types.experimental.ConcreteFunction) -> list[str]:
    """Names of the functions that the graph calls compiled."""
    return [
        f.signature.name
        for f in function.graph.as_graph_def().library.function
        if f.attr["_XlaMustCompile"].b
    ]


@pytest.mark.parametrize("few", [False, True])
def test_unknown_lengths_are_fused_where_few_are_expected(few):
    """One trace for all lengths, whose programs are compiled as they come."""
    norm = LayerNorm()
    norm.build([None, None, 6])
    context = LayerContext(few, tf.constant([5, 7]))
    rows = tf.TensorSpec([2, None, 6])

    def run(x, residual):
        return norm.after_residual(x, residual, tf.ones([6]), context, 3, 0.3)

    @tf.function(input_signature=[rows] * 3, autograph=False)
    def step(x, residual, upstream):
        if few:
            fusion.expect_few_shapes()
        return value_and_gradients(run, [x, residual], upstream)

    assert bool(kernels(step.get_concrete_function())) == few
    for length in (3, 5):
        x, residual, upstream = (random(2, length, 6) for _ in range(3))
        eager = value_and_gradients(run, [x, residual], upstream)
        for a, b in zip(
            tf.nest.flatten(eager),
            tf.nest.flatten(step(x, residual, upstream)),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, atol=2e-6)
    assert step.experimental_get_tracing_count() == 1


def test_a_compiled_function_assigns_a_variable():
    @fusion.compiled
    def double(variable, by):
        variable.assign(variable * by)

    plain = tf.Variable(random(3, 4))
    wanted = 4.0 * plain.numpy()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        copied = tf.Variable(plain)

    @tf.function(autograph=False)
    def step():
        double(plain, tf.constant(2.0))
        double(plain, tf.constant(2.0))
        double(copied, tf.constant(4.0))

    step()
    np.testing.assert_allclose(plain, wanted, rtol=1e-6)
    np.testing.assert_allclose(copied.values[0], wanted, rtol=1e-6)
    assert len(kernels(step.get_concrete_function())) == 1


def test_what_somebody_holds_is_not_overwritten():
    """A checkpoint that is being written, or a value that the step returns."""

    @fusion.compiled
    def double(variable):
        variable.assign(variable * 2.0)

    variable = tf.Variable(tf.ones([30, 40]))
    held = variable.read_value()

    @tf.function(autograph=False)
    def step():
        before = variable.read_value()
        double(variable)
        return before, variable.read_value()

    for wanted in (1.0, 2.0):
        before, after = step()
        assert set(before.numpy().flat) == {wanted}
        assert set(after.numpy().flat) == {2.0 * wanted}
    assert set(held.numpy().flat) == {1.0}


def test_residual_normalization_with_dropout():
    norm = LayerNorm()
    norm.build([None, 6])
    norm.gamma.assign(random(6))
    context = LayerContext(True, tf.constant([5, 7]))

    def run(x, residual, bias):
        return norm.after_residual(x, residual, bias, context, 3, 0.3)

    check_same(run, [random(5, 6), random(5, 6), random(6)], random(5, 6))


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("chosen", [False, True])
def test_attention_and_its_written_gradient(chosen, directions):
    n, b, t, k, h = 3, 4, 5, 7, 2
    q = 4 if chosen else t
    r = k + t
    tensors = [
        random(n, b, q, h),
        random(n, b, q, h),
        random(n, b, q, 1),
        random(n, b, k, h),
        random(n, b, k, h),
        random(n, directions, r, h),
    ]
    difference = tf.constant(RANDOM.integers(0, 2, [b, q, k]), tf.float32)
    mask = tf.constant(RANDOM.integers(0, 2, [b, q, k]) * -1e30, tf.float32)
    seed = tf.constant([11, 2])
    rows = None
    if chosen:
        rows = tf.constant(RANDOM.integers(0, t, [b, q]), tf.int32)

    def keys_of(key, value, table):
        return relative.Keys(key, value, table, t, k)

    def written(content, position, segment, key, value, table):
        return relative.attend(
            relative.Queries(content, position, segment),
            keys_of(key, value, table),
            Stream(mask, difference, rows),
            seed,
            0.2,
        )

    def automatic(content, position, segment, key, value, table):
        scores = tf.matmul(content, key, transpose_b=True)
        flat = tf.reshape(position, [n, directions, -1, h])
        moved = tf.matmul(flat, table, transpose_b=True)
        moved = tf.reshape(moved, [n, b, q, r])
        scores += keys_of(key, value, table).shift(moved, rows)
        p = tf.nn.softmax(scores + segment * difference + mask)
        return tf.matmul(dropout.masked(p, seed, 0.2), value)

    upstream = random(n, b, q, h)
    check_same(written, tensors, upstream)
    for a, b_ in zip(
        tf.nest.flatten(value_and_gradients(written, tensors, upstream)),
        tf.nest.flatten(value_and_gradients(automatic, tensors, upstream)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b_, atol=2e-6)


def test_unshift_is_the_transpose_of_the_shift():
    x, y = random(2, 1, 3, 8), random(2, 1, 3, 5)
    shifted = tf.reduce_sum(positions.shift_all(x, 5) * y)
    moved = tf.reduce_sum(x * relative._unshift(y, count=8))
    np.testing.assert_allclose(shifted, moved, rtol=1e-5)


def test_dropout_masks_are_the_same_fused_and_plain():
    x = tf.ones([40, 50])
    seed = tf.constant([123456789, -5])
    eager = dropout.dropout(x, 0.4, seed, 3)
    graph = tf.function(
        lambda: dropout.dropout(x, 0.4, seed, 3), autograph=False
    )()
    np.testing.assert_array_equal(eager, graph)
    assert set(np.unique(eager)) == {0.0, np.float32(1 / 0.6)}


def test_dropout_keeps_the_rate_and_sites_are_independent():
    x = tf.ones([1000, 1000])
    kept = {
        (seed, site): (
            dropout.dropout(x, 0.1, tf.constant([seed, 9]), site).numpy() > 0
        )
        for seed in (0, 1)
        for site in (0, 1)
    }
    sigma = np.sqrt(0.1 * 0.9 / 1e6)
    for mask in kept.values():
        assert abs(mask.mean() - 0.9) < 4 * sigma
        # Neighbours in both directions, and a stride of a power of two.
        for a, b in (
            (mask[1:], mask[:-1]),
            (mask[:, 1:], mask[:, :-1]),
            (mask[:, 64:], mask[:, :-64]),
        ):
            assert abs((a & b).mean() - 0.81) < 4e-4 * 4
    masks = list(kept.values())
    for i in range(4):
        for j in range(i):
            both = (masks[i] & masks[j]).mean()
            assert abs(both - 0.81) < 4e-4 * 4


def test_dropout_is_unbiased_over_seeds_at_one_place():
    seeds = [tf.constant([s, 3]) for s in range(400)]
    x = tf.ones([3, 7])
    mean = np.mean([dropout.dropout(x, 0.25, s, 2) for s in seeds], 0)
    np.testing.assert_allclose(mean, 1.0, atol=0.12)


@pytest.mark.parametrize("package, compiles", [(None, True), ("2.20.0", False)])
def test_the_tpu_build_cannot_compile_for_the_host(
    monkeypatch, package, compiles
):
    """There a fused kernel fails: no "transfer manager for platform Host"."""
    versions = {"tensorflow-tpu": package}
    monkeypatch.setattr(tpu_build, "version_of", versions.get)
    kernel = fusion.compiled(lambda x: x + 1.0)
    outer = tf.function(kernel, autograph=False).get_concrete_function(
        tf.TensorSpec([fusion.MIN_ELEMENTS])
    )
    marks = [
        f.attr["_XlaMustCompile"].b
        for f in outer.graph.as_graph_def().library.function
    ]
    assert any(marks) == compiles
