"""ModernBERT's names there, groups of the optimizer, and its summary."""

import re

import numpy as np
import pytest

from common.errors import UserError
from modeling import ClassificationModel, PretrainingModel
from modeling.checkpoints.names import named_variables
from modeling.encoders.hf_names import Summary
from modeling.encoders.modernbert import names
from modeling.encoders.modernbert.config import ModernBertConfig

CONFIG = ModernBertConfig(9, 8, 3, 2, 6)
OURS = names.HuggingFace()


@pytest.mark.parametrize("head", ["pretraining", "classification"])
def test_every_variable_has_a_name_there(head):
    model = {
        "pretraining": lambda: PretrainingModel(CONFIG),
        "classification": lambda: ClassificationModel(CONFIG, 3),
    }[head]()
    table = OURS.names(CONFIG) | OURS.head_names(head)
    assert set(named_variables(model)) <= set(table)
    theirs = [name for name, _ in table.values()]
    assert len(set(theirs)) == len(theirs)
    # The first layer's norm is that of the embeddings.
    assert "model.layers.0.attn_norm.weight" not in theirs
    assert "model.layers.1.attn_norm.weight" in theirs
    assert OURS.class_name("pretraining") == "ModernBertForMaskedLM"


def test_one_group_of_the_optimizer_takes_each_of_the_encoders():
    model = PretrainingModel(CONFIG)
    for name in named_variables(model):
        if not name.startswith("model/modernbert/"):
            continue
        groups = [g for g in names.GROUPS if re.fullmatch(g[0], name)]
        assert len(groups) == 1, name
        assert groups[0][1] == name.endswith(("kernel", "table")), name


def test_heads_become_an_axis():
    arrays = {
        "model/modernbert/layer_0/attention/qkv/kernel": np.arange(
            192.0
        ).reshape(8, 24),
        "model/modernbert/layer_0/attention/o/kernel": np.zeros([8, 8]),
        "model/modernbert/layer_0/ff/layer_1/kernel": np.zeros([8, 12]),
    }
    OURS.from_theirs(arrays, CONFIG, "f")
    shapes = [array.shape for array in arrays.values()]
    assert shapes == [(8, 3, 2, 4), (8, 2, 4), (8, 12)]


@pytest.mark.parametrize(
    "summary, wanted",
    [
        (Summary("first", True, "masked"), "cls"),
        (Summary("mean", True, ""), "mean"),
        (Summary(None, True, "masked"), "as it was"),
        (Summary("mean", True, "original"), None),
        (Summary("last", True, "masked"), None),
        (Summary("first", False, "masked"), None),
    ],
)
def test_what_their_class_can_pool(summary, wanted):
    theirs = {"classifier_pooling": "as it was"}
    if wanted is None:
        with pytest.raises(UserError, match="use --to_format=native"):
            OURS.write_summary(theirs, summary)
        return
    OURS.write_summary(theirs, summary)
    assert theirs["classifier_pooling"] == wanted


@pytest.mark.parametrize(
    "head, complete",
    [
        ("encoder", True),
        ("classification", True),  # `write_summary` refuses it
        ("token_classification", False),
        ("span", False),
    ],
)
def test_logits_of_tokens_need_the_prediction_head(head, complete):
    OURS.check_complete(dict.fromkeys(names._HEAD), head)
    if complete:
        OURS.check_complete({}, head)
        return
    with pytest.raises(UserError, match=OURS.class_name(head)):
        OURS.check_complete({}, head)
