"""Conversions of models of the newer encoders, with their poolers."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from modeling import ClassificationModel, PretrainingModel
from modeling.checkpoints import conversion
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.heads import table as heads
from modeling.options import ConvertOptions

SIZES = dict(vocab_size=13, d_model=8, n_layer=2, n_head=2, d_inner=6)
BERT, MODERN = BertConfig(**SIZES), ModernBertConfig(**SIZES)


def _native(model, head, folder):
    """A native folder of a model with other weights than fresh ones."""
    for i, variable in enumerate(model.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [1, i]))
    nowhere = checkpoints.Source("native", "", "")
    weights = conversion.Weights(head, model.config, model, {}, [])
    conversion.write(weights, "native", folder, nowhere)
    return folder


def _read(folder, head=None):
    config = checkpoints.find_config(folder)
    return conversion.read(checkpoints.resolve(folder), config, head)


def _assert_equal(before, after):
    before, after = named_variables(before), named_variables(after)
    assert set(before) == set(after)
    for name, variable in before.items():
        np.testing.assert_array_equal(variable, after[name], name)


@pytest.mark.parametrize("regression", [False, True])
def test_classifiers_of_modernbert_go_and_come_back(regression, tmp_path):
    head = "regression" if regression else "classification"
    labels = 1 if regression else 3
    model = ClassificationModel(MODERN, labels, regression=regression)
    native = _native(model, head, str(tmp_path / "native"))
    hf, back = str(tmp_path / "hf"), str(tmp_path / "back")
    conversion.convert(ConvertOptions("native", "hf", native, hf))
    conversion.convert(ConvertOptions("hf", "native", hf, back))
    for folder in (native, hf, back):
        found = _read(folder)
        assert found.head == head and found.model.use_proj
        _assert_equal(model, found.model)


@pytest.mark.parametrize("options", [{"use_proj": False}, {}])
def test_poolers_of_modernbert_are_recognised(options, tmp_path):
    for summary in ("first", "attn"):
        options = options | {"summary_type": summary}
        model = ClassificationModel(MODERN, 2, **options)
        native = _native(model, "classification", str(tmp_path / summary))
        found = _read(native).model
        assert found.use_proj == options.get("use_proj", True)
        assert found.summary_type == summary
        _assert_equal(model, found)


def test_the_head_of_a_language_model_is_no_pooler():
    classifier = ClassificationModel(MODERN, 2, use_proj=False)
    names = [*named_variables(PretrainingModel(MODERN))]
    shapes = {name: [8, 8] for name in names}
    shapes["model/classification/logit/kernel"] = [8, 2]
    found = heads.build("classification", MODERN, shapes)
    assert not found.use_proj
    assert set(named_variables(found)) == set(named_variables(classifier))


def test_the_pooler_of_a_folder_without_head_is_left_out(tmp_path):
    """What `BertModel.save_pretrained` writes."""
    model = PretrainingModel(BERT).encoder
    native = _native(model, "encoder", str(tmp_path / "native"))
    hf = str(tmp_path / "hf")
    conversion.convert(ConvertOptions("native", "hf", native, hf))
    arrays = load_file(f"{hf}/model.safetensors")
    arrays["pooler.dense.weight"] = np.ones([8, 8], np.float32)
    arrays["pooler.dense.bias"] = np.ones([8], np.float32)
    save_file(arrays, f"{hf}/model.safetensors")
    back = str(tmp_path / "back")
    lines = conversion.convert(ConvertOptions("hf", "native", hf, back))
    scope = "left out, another head: model/sequnece_summary/summary/"
    assert lines[:2] == [scope + "kernel", scope + "bias"]
    _assert_equal(model, _read(back).model)
    # A fine-tuning still begins with it.
    classifier = ClassificationModel(BERT, 2)
    checkpoints.restore(classifier, hf, require="encoder")
    assert (classifier.pooler.projection.bias.numpy() == 1).all()
