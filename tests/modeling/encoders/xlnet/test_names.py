"""Canonical names are the original's."""

import json

import pytest

from common.errors import UserError
from modeling import (
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    XLNetModel,
)
from modeling.checkpoints.names import named_variables
from modeling.encoders.hf_names import Summary
from modeling.encoders.xlnet import original
from modeling.encoders.xlnet.names import HuggingFace
from tests.modeling.golden import golden_util


@pytest.mark.shared
def test_heads_checkpoint_names_all_variables_of_the_optimizer_table(golden):
    """Canonical names, stacked, are the original's."""
    with open(golden / "optim" / "variables_A.json") as f:
        table = json.load(f)
    config = golden_util.config(golden)
    for model in (
        PretrainingModel(config),
        SpanModel(config),
        MultipleChoiceModel(config, "attn"),
        XLNetModel(config),
    ):
        names = original.stack(
            {k: v.numpy() for k, v in named_variables(model).items()}
        )
        for name, value in names.items():
            assert table[name]["shape"] == list(value.shape), name


def test_a_summary_of_theirs_has_an_activation_without_projection_too():
    read = HuggingFace().read_summary
    for wrong in (
        {"summary_activation": "relu"},
        {"summary_activation": None},
        {"summary_use_proj": False},
        {"summary_use_proj": False, "summary_activation": "tanh"},
    ):
        with pytest.raises(UserError, match="f: wanted summary_activation"):
            read(wrong, "f")
    for activation in ("linear", None, ""):
        plain = {"summary_use_proj": False, "summary_activation": activation}
        assert read(plain, "f") == {}
    assert read({"summary_activation": "tanh"}, "f") == {}


@pytest.mark.parametrize(
    "use_proj,activation", [(True, "tanh"), (False, "linear")]
)
def test_a_summary_is_written_with_its_activation(use_proj, activation):
    for before in ("tanh", "relu", "linear"):
        theirs = {"summary_activation": before}
        HuggingFace().write_summary(theirs, Summary("last", use_proj, "masked"))
        assert theirs["summary_activation"] == activation
        assert HuggingFace().read_summary(theirs, "f") == {}
    theirs = {}
    HuggingFace().write_summary(theirs, Summary("last", use_proj, "masked"))
    assert theirs.get("summary_activation", "tanh") == activation


def test_activations_have_several_names_there():
    names = HuggingFace()
    sizes = dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_inner=6)
    for theirs, ours, written in (
        ("gelu", "gelu_erf", "gelu"),
        ("gelu_new", "gelu", "gelu_new"),
        ("gelu_fast", "gelu", "gelu_new"),
        ("relu", "relu", "relu"),
    ):
        config = names.read_config(sizes | {"ff_activation": theirs}, "f")
        assert config.ff_activation == ours
        assert names.write_config(config)["ff_activation"] == written


def test_data_of_two_directions_are_refused():
    """Theirs would read half of the batch backward, whatever its rows are."""
    sizes = dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_inner=6)
    assert HuggingFace().read_config(sizes | {"bi_data": False}, "f").n_layer
    with pytest.raises(UserError, match="f: wanted bi_data false"):
        HuggingFace().read_config(sizes | {"bi_data": True}, "f")


@pytest.mark.parametrize(
    "change,message",
    [
        ({"n_head": 0}, "f: `n_head` must be"),
        ({"d_model": "4"}, "f: `d_model` must be"),
        ({"ff_activation": ["relu"]}, "f: wanted ff_activation one of"),
        ({"xlnet_config": 3}, "f: wanted an object as xlnet_config, found 3"),
    ],
)
def test_a_damaged_file_of_theirs_is_one_line(change, message):
    sizes = dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_inner=6)
    with pytest.raises(UserError, match=message):
        HuggingFace().read_config(sizes | change, "f")
