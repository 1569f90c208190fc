"""Reads `golden/encoders`: any number of cases of any size, found by name."""

import json
import pathlib

import numpy as np
import tensorflow as tf

from modeling.checkpoints import conversion, hf
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from tests.conftest import SHARED

VALUE_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 2e-5


def cases(*model_types: str) -> list[str]:
    """Names of the folders of these encoders; one that is missing, if none."""
    found = []
    for path in sorted(SHARED.glob("golden/encoders/*/config.json")):
        if json.loads(path.read_text())["model_type"] in model_types:
            found.append(path.parent.name)
    return found or ["missing"]


def arrays_of(folder: pathlib.Path, case: str) -> dict[str, np.ndarray]:
    """The arrays of a case."""
    with np.load(folder / f"{case}.npz", allow_pickle=False) as f:
        return {key: f[key] for key in f.files}


def read(folder: pathlib.Path, case: str) -> conversion.Weights:
    """The model of a case, without dropout."""
    source = checkpoints.resolve(str(folder / case))
    config = checkpoints.source_config(source).replace(dropout=0.0, dropatt=0.0)
    return conversion.read(source, config, None)


def assert_close(actual, expected, what: str) -> None:
    """|a - b| <= 2e-5 max(1, max |b|)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (what, actual.shape, expected.shape)
    bound = VALUE_TOLERANCE * max(1.0, np.abs(expected).max(initial=0.0))
    error = np.abs(actual - expected).max(initial=0.0)
    assert error <= bound, f"{what}: {error} > {bound}"


def assert_gradients(tape, loss, model, head, expected, whole=True) -> None:
    """By their names and in their shapes: <= 2e-5 max |b| + 1e-7.

    Args:
      tape: that recorded `loss`.
      loss: scalar.
      model: whose variables.
      head: of the model.
      expected: their name -> array.
      whole: `expected` has every variable.
    """
    variables = named_variables(model)
    gradients = tape.gradient(
        loss,
        list(variables.values()),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    arrays = {
        name: tf.convert_to_tensor(g).numpy()
        for name, g in zip(variables, gradients, strict=True)
    }
    found = hf.to_theirs(arrays, model.config, head)
    assert expected and set(expected) <= set(found)
    assert not whole or set(expected) == set(found)
    for name, wanted in expected.items():
        assert found[name].shape == wanted.shape, name
        bound = GRADIENT_TOLERANCE * np.abs(wanted).max() + 1e-7
        error = np.abs(found[name] - wanted).max()
        assert error <= bound, f"{name}: {error} > {bound}"


def below(arrays: dict[str, np.ndarray], prefix: str) -> dict:
    """Entries `<prefix>/<name>` by name."""
    return {
        key.removeprefix(prefix + "/"): value
        for key, value in arrays.items()
        if key.startswith(prefix + "/")
    }


def mean_loss(logits, labels):
    """Cross-entropy, mean over labels that are not -100."""
    counts = tf.cast(labels >= 0, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.maximum(labels, 0), logits
    )
    return tf.reduce_sum(losses * counts) / tf.reduce_sum(counts)
