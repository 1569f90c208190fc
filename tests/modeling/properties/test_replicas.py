"""Two replicas, compiled and recomputed, train as one does."""

import pytest

from tests.helpers import commands

_SCRIPT = """
import sys
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from modeling import PretrainingModel, XLNetConfig
from modeling.checkpoints.names import named_variables

config = XLNetConfig(vocab_size=29, d_model=12, n_layer=2, n_head=3, d_head=5,
                     d_inner=20, dropout=0.0, dropatt=0.0, init_std=0.3)
ids = np.random.default_rng(0).integers(0, 29, (4, 7)).astype(np.int32)
weights, losses = None, {}
for replicas, recompute in ((1, "none"), (2, "layer")):
    devices = [f"CPU:{i}" for i in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        model = PretrainingModel(config, recompute=recompute)
    if weights is None:
        weights = [v.numpy() for v in model.variables]
    for variable, value in zip(model.variables, weights):
        variable.assign(value)
    assert len(named_variables(model)) == len(weights)

    def replica(rows):
        with tf.GradientTape() as tape:
            output = model(rows, target_positions=rows[:, :2] % 7)
            loss, _, _ = model.lm_loss(
                output.query_output, rows[:, :2],
                tf.ones_like(rows[:, :2]), chunk_size=3)
        gradients = tape.gradient(loss, model.trainable_variables)
        context = tf.distribute.get_replica_context()
        summed = context.all_reduce(
            "SUM", [tf.convert_to_tensor(g) for g, v in
                    zip(gradients, model.trainable_variables)
                    if g is not None])
        used = [v for g, v in zip(gradients, model.trainable_variables)
                if g is not None]
        for gradient, variable in zip(summed, used):
            variable.assign_sub(0.01 * gradient)
        return loss

    @tf.function
    def step(rows):
        return strategy.reduce("SUM", strategy.run(replica, (rows,)), None)

    def rows(context):
        n = 4 // replicas
        i = context.replica_id_in_sync_group
        return tf.constant(ids[i * n:(i + 1) * n])

    batch = strategy.experimental_distribute_values_from_function(rows)
    losses[replicas, recompute] = [float(step(batch)) for _ in range(3)]
print(losses)
first = losses[1, "none"]
assert first[2] < first[0]
for other in losses.values():
    np.testing.assert_allclose(other, first, rtol=1e-4)
"""


@pytest.mark.slow
def test_two_replicas_equal_one():
    done = commands.run("-c", _SCRIPT)
    assert done.returncode == 0, done.stderr[-3000:]
