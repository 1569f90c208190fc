"""Fused kernels give the numbers of the plain functions, both ways."""

import numpy as np
import pytest
import tensorflow as tf

from common.process import tpu_build
from modeling.ops import fused as fusion
from modeling.ops.context import LayerContext
from modeling.ops.normalization import LayerNorm
from tests.modeling.ops.gradient_checks import check_same, value_and_gradients

RANDOM = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def small_kernels(monkeypatch):
    """Toy tensors are fused, too."""
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)


def random(*shape):
    return tf.constant(RANDOM.normal(size=shape), tf.float32)


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


@pytest.mark.long
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
