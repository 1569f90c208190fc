"""Four virtual CPU replicas, and a clean precision policy after each test."""

import contextlib

import pytest
import tensorflow as tf
import tf_keras

with contextlib.suppress(RuntimeError):
    # Only works before the first op of the process.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 4,
    )


@pytest.fixture(autouse=True)
def _float32_policy():
    yield
    tf_keras.mixed_precision.set_global_policy("float32")
