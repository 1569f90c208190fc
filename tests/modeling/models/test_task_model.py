"""What every task model shares: dictionaries, packed rows, names of heads."""

import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import ClassificationModel, XLNetConfig
from modeling.encoders.bert.config import BertConfig
from modeling.models import task_model
from modeling.models.task_model import TaskModel
from modeling.ops import dropout

CONFIG = XLNetConfig(
    vocab_size=29, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)
IDS = np.arange(10).reshape(2, 5)


def test_a_dictionary_is_the_same_call_and_none_is_absent():
    model = ClassificationModel(CONFIG, 3)
    mask = np.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    plain = model(IDS, input_mask=mask)
    inputs = {"input_ids": IDS, "input_mask": mask, "segment_ids": None}
    np.testing.assert_array_equal(model(inputs), plain)


def test_the_heads_seed_is_of_none_of_the_layers():
    model = TaskModel(CONFIG)
    seed = tf.constant([3, 4])
    assert model.head_seed(False, seed) is None
    assert model.head_seed(True, None) is None
    found = model.head_seed(True, seed)
    np.testing.assert_array_equal(found, dropout.fold(seed, 3))
    for part in range(3):
        assert (found.numpy() != dropout.fold(seed, part).numpy()).any()


def test_packed_rows_take_ids_and_segments_alone():
    model = TaskModel(BertConfig(29, 4, 1, 2, 6))
    packing = types.SimpleNamespace(pack=lambda x: x)
    with pytest.raises(ValueError, match="packed rows take no bi_data, ranks"):
        model.encode(IDS, packing=packing, ranks=1, bi_data=True, memory=None)


def test_an_encoder_may_be_shared():
    first = TaskModel(CONFIG, recompute="layer")
    second = ClassificationModel(CONFIG, 3, encoder=first.encoder)
    assert second.encoder is first.encoder
    assert second.encoder.recompute == "layer"
    config = ClassificationModel(CONFIG, 3, "first").get_config()
    assert config["summary_type"] == "first" and "encoder" not in config


def test_names_of_dense_layers_and_of_poolers():
    assert task_model.dense_paths("a/b", "c") == {
        "a/b/kernel": "c/kernel",
        "a/b/bias": "c/bias",
    }
    assert task_model.dense_paths("a", "c", use_bias=False) == {
        "a/kernel": "c/kernel"
    }
    pooler = types.SimpleNamespace(
        scope="own", variable_paths=lambda: {"summary/kernel": "projection/k"}
    )
    for own, scope in ((True, "own"), (False, "task")):
        assert task_model.pooler_paths("task", pooler, own) == {
            f"{scope}/summary/kernel": "pooler/projection/k"
        }
