"""Exports in bfloat16: half the weights, answers near those of float32."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import ClassificationModel, MultipleChoiceModel, SpanModel
from modeling.checkpoints.names import named_variables
from modeling.models.half_precision import in_bfloat16
from serving.export import export_model
from serving.options import ExportOptions
from serving.saved_model import SavedModel
from tests.serving.export.toy_exports import (
    LABELS,
    ROWS,
    make_config,
    make_spec,
)

BUILDS = {
    "classification": lambda config: ClassificationModel(config, 3),
    "multiple_choice": MultipleChoiceModel,
    "span": lambda config: SpanModel(config, 2, 2),
}


def test_matrices_are_rounded_once_and_vectors_kept():
    config = make_config(30)
    model = ClassificationModel(config, 3)
    half = in_bfloat16(lambda: ClassificationModel(config, 3), model)
    assert tf.keras.mixed_precision.global_policy().name == "float32"
    assert half.dtype_policy.name == "mixed_bfloat16"
    found = named_variables(half)
    for name, variable in named_variables(model).items():
        value, stored = variable.numpy(), found[name].read_value().numpy()
        if value.ndim > 1:
            assert stored.dtype == tf.bfloat16.as_numpy_dtype, name
            value = value.astype(stored.dtype)
        else:
            assert stored.dtype == np.float32, name
        np.testing.assert_array_equal(stored, value)
    ids = np.arange(5, 17, dtype=np.int32).reshape(2, 6)
    np.testing.assert_allclose(half(ids), model(ids), atol=0.1)
    assert not np.array_equal(half(ids), model(ids))
    with pytest.raises(UserError, match="precision must be one of"):
        ExportOptions("model", precision="mixed_float16")


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("head", BUILDS)
def test_an_export_says_its_precision(head, spiece_model, tmp_path):
    """Checked in a fresh process; half the size; nearly the same answers."""
    config = make_config()
    model = BUILDS[head](config)
    spec = make_spec(head, LABELS if head == "classification" else ())
    if head == "span":
        spec = make_spec(head, max_query_length=4, doc_stride=4)
    sizes, outputs = [], []
    half = in_bfloat16(lambda: BUILDS[head](config), model)
    for each in (model, half):
        folder = export_model(
            str(tmp_path), each, spec, spiece_model, check=each is half
        )
        with open(os.path.join(folder, "signature.json")) as f:
            value = json.load(f)
        assert value["precision"] == each.dtype_policy.name
        data = "variables/variables.data-00000-of-00001"
        sizes.append(os.path.getsize(os.path.join(folder, data)))
        row = {k: [v] for k, v in ROWS[head].items()}
        outputs.append(SavedModel(folder)(row))
    assert sizes[1] < 0.6 * sizes[0]
    name = "null_odds" if head == "span" else "logits"
    np.testing.assert_allclose(outputs[1][name], outputs[0][name], atol=0.1)
