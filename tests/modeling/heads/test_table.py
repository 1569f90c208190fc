"""Which head weights belong to, and a model of their size."""

import pytest

from common.errors import UserError
from modeling import XLNetConfig
from modeling.checkpoints.names import named_variables
from modeling.heads import table

CONFIG = XLNetConfig(
    vocab_size=29, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)
LOGIT = "model/classification/logit/kernel"
LM = "model/lm_loss/bias"


def test_a_marker_names_the_head():
    assert table.find({LOGIT: 0}, "x", None) == "classification"
    assert table.find(["class_dense/kernel"], "x", None) == "classification"
    assert table.find({"model/transformer/r_w_bias": 0}, "x", None) == "encoder"
    both = [LOGIT, LM]
    assert table.find(both, "x", "pretraining") == "pretraining"
    assert table.find(both, "x", "encoder") == "encoder"
    with pytest.raises(UserError, match="x holds the heads .*choose one with"):
        table.find(both, "x", None)
    with pytest.raises(UserError, match="wanted the head `span`, found .'clas"):
        table.find([LOGIT], "x", "span")


def test_a_model_has_the_size_of_its_weights():
    model = table.build("classification", CONFIG, {LOGIT: (6, 5)})
    assert model.num_labels == 5
    tags = "model/token_classification/logit/kernel"
    model = table.build("token_classification", CONFIG, {tags: (6, 7)})
    assert named_variables(model)[tags].shape == [6, 7]
    bare = table.build("encoder", CONFIG, {})
    assert not [n for n in named_variables(bare) if "logit" in n]
