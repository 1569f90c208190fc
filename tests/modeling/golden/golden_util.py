"""Reads the original's numbers; helper of the parity tests."""

import pathlib
import re

import numpy as np
import tensorflow as tf

from modeling import XLNetConfig
from modeling.checkpoints import tf1 as tf1_checkpoint
from modeling.checkpoints.names import named_variables
from modeling.encoders.xlnet import original

VALUE_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 2e-5


def load(golden: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    """Arrays of `golden/A/<name>.npz`."""
    with np.load(golden / "A" / f"{name}.npz", allow_pickle=False) as f:
        return {key: f[key] for key in f.files}


def config(golden: pathlib.Path, **changes) -> XLNetConfig:
    """Config A without dropout."""
    read = XLNetConfig.from_json_file(str(golden / "A" / "xlnet_config.json"))
    return read.replace(**({"dropout": 0.0, "dropatt": 0.0} | changes))


def assign(model, golden: pathlib.Path, name: str, rename=()) -> None:
    """Gives a model the weights of `golden/A/<name>`, by name.

    What the checkpoint lacks must be `mask_emb` (fine-tuned ones have none).
    """
    arrays, _, _ = tf1_checkpoint.read(str(golden / "A" / name), model.config)
    for old, new in rename:
        arrays = {k.replace(old, new): v for k, v in arrays.items()}
    for key, variable in named_variables(model).items():
        if key.endswith("mask_emb") and key not in arrays:
            continue
        variable.assign(arrays[key])


def assert_close(actual, expected, what="value"):
    """|a - b| <= 2e-5 max(1, max |b|); masked scores (-1e30) only as such."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, what
    masked = expected < -1e29
    assert (actual[masked] < -1e29).all(), what
    actual, expected = actual[~masked], expected[~masked]
    bound = VALUE_TOLERANCE * max(1.0, np.abs(expected).max(initial=0.0))
    error = np.abs(actual - expected).max(initial=0.0)
    assert error <= bound, f"{what}: {error} > {bound}"


def stacked_gradients(tape, loss, model) -> dict[str, np.ndarray]:
    """Gradients by the original's names; None where there is none."""
    variables = named_variables(model)
    gradients = tape.gradient(loss, list(variables.values()))
    dense = {
        name: tf.convert_to_tensor(g).numpy()
        for name, g in zip(variables, gradients, strict=True)
        if g is not None
    }
    return original.stack(dense)


def assert_gradients(actual, expected, skip=()):
    """All expected gradients are there and agree; no other is."""
    assert set(actual) == set(expected)
    for name, wanted in expected.items():
        if name in skip:
            assert np.abs(actual[name]).max() < 1e-6, name
            continue
        bound = GRADIENT_TOLERANCE * np.abs(wanted).max() + 1e-7
        error = np.abs(actual[name] - wanted).max()
        assert error <= bound, f"{name}: {error} > {bound}"


def gradients_of(arrays: dict, prefix: str) -> dict[str, np.ndarray]:
    """Entries `<prefix>/<variable>` by variable."""
    prefix += "/"
    return {
        key.removeprefix(prefix): value
        for key, value in arrays.items()
        if key.startswith(prefix)
    }


def matching(units, pattern):
    found = [
        (match, units[match.group()])
        for match in (re.fullmatch(pattern, key) for key in sorted(units))
        if match
    ]
    assert found
    return found


# Exactly zero in theory (softmax ignores a shift); the stored ones are noise.
NOISE = {
    "start_logits/dense/bias",
    "end_logits/dense_1/bias",
    "end_logits/LayerNorm/beta",
    "logits/dense/bias",
}


def task_inputs(data, prefix="in"):
    return {
        "input_ids": tf.constant(data[f"{prefix}/input_ids"]),
        "segment_ids": tf.constant(data[f"{prefix}/segment_ids"]),
        "input_mask": tf.constant(1.0 - data[f"{prefix}/input_mask"]),
    }
