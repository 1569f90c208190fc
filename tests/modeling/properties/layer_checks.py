"""What every layer must do: one line per layer in the tests."""

import pathlib

import numpy as np
import tensorflow as tf
import tf_keras


def check_layer(
    layer,
    inputs: list,
    folder: pathlib.Path,
    call=None,
    mixed: str | None = "bfloat16",
) -> None:
    """Builds, calls, differentiates, saves, reloads; in mixed precision too.

    Args:
      layer: not built yet, made for float32.
      inputs: arrays that it is called with; floats are [B, T, D].
      folder: for checkpoints.
      call: (layer, *tensors) -> output; None = the layer itself.
      mixed: the output's type under mixed_bfloat16; None = the layer has no
        mixed form to try.
    """
    call = call or (lambda layer, *tensors: layer(*tensors))
    made = _build(layer, inputs)
    assert made.trainable_variables, "a layer without variables"
    tensors = [tf.constant(x) for x in inputs]
    with tf.GradientTape() as tape:
        output = call(made, *tensors)
        loss = tf.reduce_sum(tf.sin(output))
    assert np.isfinite(output).all()
    for variable, gradient in zip(
        made.trainable_variables,
        tape.gradient(loss, made.trainable_variables),
        strict=True,
    ):
        assert gradient is not None, variable.name

    # Any size, in a graph.
    specs = [
        tf.TensorSpec([None, None, *t.shape[2:]], t.dtype) for t in tensors
    ]
    traced = tf.function(
        lambda *t: call(made, *t), input_signature=specs, autograph=False
    )
    np.testing.assert_allclose(traced(*tensors), output, atol=2e-5)

    # Another instance of the same configuration, with saved weights.
    again = tf_keras.layers.deserialize(tf_keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()
    assert again.dtype_policy.name == layer.dtype_policy.name
    again = _build(type(layer).from_config(layer.get_config()), inputs)
    path = tf.train.Checkpoint(layer=made).save(str(folder / "layer"))
    tf.train.Checkpoint(layer=again).restore(path).assert_consumed()
    np.testing.assert_array_equal(call(again, *tensors), output)
    if mixed is None:
        return

    policy = layer.get_config() | {"dtype": "mixed_bfloat16"}
    half = _build(type(layer).from_config(policy), inputs)
    half.set_weights(made.get_weights())
    assert {v.dtype for v in half.variables} == {tf.float32}
    compute = tf.as_dtype(half.compute_dtype)
    near = call(
        half, *(tf.cast(t, compute) if _is_float(t) else t for t in tensors)
    )
    assert near.dtype == tf.as_dtype(mixed)
    near = tf.cast(near, tf.float32)
    assert np.linalg.norm(near - output) < 3e-2 * np.linalg.norm(output)


def _build(layer, inputs):
    layer.build([None, None, *np.shape(inputs[0])[2:]])
    for variable in layer.trainable_variables:
        rng = np.random.default_rng(variable.shape.num_elements())
        variable.assign(rng.normal(size=variable.shape) * 0.4)
    return layer


def _is_float(tensor) -> bool:
    return tensor.dtype.is_floating
