"""Configurations in our words and in theirs: unknown keys, bounds, memory."""

import json

import pytest

from common.errors import UserError
from modeling import XLNetConfig
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig

SIZES = dict(vocab_size=9, d_model=6, n_layer=2, n_head=3, d_inner=8)


def test_their_words_and_ours_are_one_file():
    config = BertConfig(**SIZES, extra={"theirs": 7})
    fields = json.loads(config.to_json())
    assert fields["hidden_size"] == 6 and fields["theirs"] == 7
    assert fields["hidden_act"] == "gelu"  # theirs is the exact form
    assert BertConfig.from_dict(fields) == config
    both = fields | {"d_model": 6}
    assert BertConfig.from_dict(both) == config
    with pytest.raises(UserError, match="`hidden_size` 6 and `d_model` 4 disa"):
        BertConfig.from_dict(fields | {"d_model": 4})
    with pytest.raises(UserError, match="`hidden_act` must be one of .*'mish'"):
        BertConfig.from_dict(fields | {"hidden_act": "mish"})


@pytest.mark.parametrize(
    "name, wanted",
    [
        ("gelu_python", "gelu_erf"),
        ("gelu_fast", "gelu"),
        ("gelu_accurate", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("gelu_python_tanh", "gelu"),
    ],
)
def test_all_their_names_of_a_function_are_read(name, wanted):
    """They were refused; the tanh form has five names in transformers."""
    fields = json.loads(BertConfig(**SIZES).to_json())
    config = BertConfig.from_dict(fields | {"hidden_act": name})
    assert config.ff_activation == wanted
    written = {"gelu": "gelu_new", "gelu_erf": "gelu"}[wanted]
    assert json.loads(config.to_json())["hidden_act"] == written


def test_a_field_that_is_missing_has_their_name():
    fields = json.loads(BertConfig(**SIZES).to_json())
    del fields["hidden_size"]
    with pytest.raises(UserError, match="lacks .'hidden_size'"):
        BertConfig.from_dict(fields)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"n_layer": 0}, "`n_layer` must be >= 1"),
        ({"n_layer": 2.5}, "`n_layer`"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
        ({"init_std": 0.0}, "`init_std` must be > 0"),
    ],
)
@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_values_out_of_bounds_name_the_field(kind, change, message):
    values = SIZES | change
    with pytest.raises(UserError, match=message):
        if kind == "bert":
            BertConfig(**values)
        else:
            XLNetConfig(**values, d_head=4)


def test_rates_that_are_not_said_are_the_first():
    assert BertConfig(**SIZES).d_head == 2
    rates = AlbertConfig(**SIZES, dropout=0.25).dropout_rates
    assert rates[0] == 0.25 and None not in rates
    recurrent = TransformerXLConfig(**SIZES, d_head=4, dropout=0.3)
    assert recurrent.inner_dropout == 0.3
    assert recurrent.replace(activation_dropout=0.0).inner_dropout == 0.0


def test_only_recurrent_encoders_have_memory():
    config = BertConfig(**SIZES)
    assert config.with_memory(None) is config.with_memory(0) is config
    with pytest.raises(UserError, match="bert has no memory: .* found 5"):
        config.with_memory(5)
    with pytest.raises(UserError, match="`d_model` must be even"):
        XLNetConfig(**(SIZES | {"d_model": 7}), d_head=4)
