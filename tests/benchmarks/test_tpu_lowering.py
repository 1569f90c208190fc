"""The way through the TPU compiler, on a small function."""

import multiprocessing
import sys
from concurrent import futures

import pytest
import tensorflow as tf

from benchmarks.tpu import lowering as tpu_lowering
from common.errors import UserError


def test_missing_jax_names_the_requirements(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(UserError, match="requirements-plan.txt"):
        tpu_lowering.require_jax()


def test_hbm_counts_aliased_results_once():
    compiled = tpu_lowering.Compiled(
        flops=0.0,
        bytes_accessed=0.0,
        optimal_seconds=0.0,
        argument_bytes=100,
        output_bytes=60,
        alias_bytes=50,
        temporary_bytes=7,
        code_bytes=2,
        compile_seconds=0.0,
    )
    assert compiled.hbm_bytes == 119


def _names(factor: float) -> tuple[str, str]:
    """Of one program on two chips."""
    weight = tf.Variable(tf.ones([4, 8]))

    @tf.function(jit_compile=True, autograph=False)
    def product(x):
        y = tf.matmul(x, weight)
        return tf.map_fn(lambda row: factor * row, y)

    hlo = tpu_lowering.lower(product, tf.TensorSpec([2, 4]))
    return tuple(tpu_lowering.fingerprint(hlo, t) for t in ("v3", "v4"))


@pytest.mark.slow
def test_another_process_knows_a_program_again():
    pytest.importorskip("jax")
    pytest.importorskip("libtpu")
    spawn = multiprocessing.get_context("spawn")
    found = []
    for factor in (2.0, 2.0, 3.0):
        with futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
            found.append(pool.submit(_names, factor).result())
    first, again, other = found
    assert first == again and len({*first, *other}) == 4


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["v3", "v5e"])
def test_a_training_step_compiles(topology):
    pytest.importorskip("jax")
    pytest.importorskip("libtpu")
    weight = tf.Variable(tf.ones([256, 384]))
    slot = tf.Variable(tf.zeros([256, 384]))

    @tf.function(jit_compile=True, autograph=False)
    def step(x, seed):
        with tf.GradientTape() as tape:
            y = tf.matmul(x, weight)
            y = tf.nn.experimental.stateless_dropout(y, 0.1, seed)
            loss = tf.reduce_sum(tf.tanh(y))
        (gradient,) = tape.gradient(loss, [weight])
        slot.assign(0.9 * slot + gradient)
        weight.assign_sub(0.1 * slot)
        return loss

    hlo = tpu_lowering.lower(
        step, tf.TensorSpec([128, 256]), tf.TensorSpec([2], tf.int32)
    )
    found = tpu_lowering.compile_for(hlo, topology)
    variables = 2 * 256 * 384 * 4
    # Forward and the kernel's gradient: two products of the same size.
    assert found.flops >= 2 * (2 * 128 * 256 * 384)
    assert found.argument_bytes >= variables + 128 * 256 * 4
    assert found.alias_bytes >= variables
    assert found.hbm_bytes < 4 * variables + 2**24
