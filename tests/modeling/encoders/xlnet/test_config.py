"""The config: the original's file, validation, named sizes."""

import dataclasses
import json

import pytest

from common.errors import UserError
from modeling import XLNetConfig

SIZES = dict(vocab_size=9, d_model=4, n_layer=1, n_head=2, d_head=3, d_inner=5)


@pytest.mark.shared
def test_the_originals_file_is_written_back_unchanged(golden, tmp_path):
    source = golden / "A" / "xlnet_config.json"
    config = XLNetConfig.from_json_file(str(source))
    assert (config.vocab_size, config.n_layer, config.d_head) == (101, 3, 8)
    path = tmp_path / "xlnet_config.json"
    config.to_json_file(str(path))
    assert path.read_text() == source.read_text()


def test_every_field_survives(tmp_path):
    config = XLNetConfig(
        **SIZES,
        ff_activation="relu",
        untie_r=False,
        attn_type="uni",
        same_length=True,
        clamp_len=7,
        blind_rows="original",
        mem_len=8,
        reuse_len=2,
        dropout=0.2,
        dropatt=0.0,
        activation_dropout=0.0,
        init_method="uniform",
        init_range=0.3,
        init_std=0.5,
        extra={"release": "1.0"},
    )
    changed = {
        f.name
        for f in dataclasses.fields(config)
        if getattr(config, f.name) != f.default
    }
    assert changed == {f.name for f in dataclasses.fields(config)}
    path = str(tmp_path / "c.json")
    config.to_json_file(path)
    assert XLNetConfig.from_json_file(path) == config
    assert XLNetConfig.from_dict(config.to_dict()) == config
    with open(path) as f:
        value = json.load(f)
    assert value["release"] == "1.0" and value["n_token"] == 9


@pytest.mark.parametrize(
    "change,words",
    [
        ({"d_model": 5}, "even"),
        ({"n_layer": 0}, "n_layer.*>= 1"),
        ({"n_head": 2.0}, "whole number"),
        ({"untie_r": "yes"}, "true or false"),
        ({"attn_type": "both"}, "bi.*uni"),
        ({"ff_activation": "swish"}, "gelu"),
        ({"dropout": 1.0}, "must be in"),
        ({"dropatt": -0.1}, "must be in"),
        ({"mem_len": -1}, "mem_len"),
        ({"init_std": 0}, "> 0"),
    ],
)
def test_bad_values(change, words):
    with pytest.raises(UserError, match=words):
        XLNetConfig(**(SIZES | change))


@pytest.mark.parametrize(
    "text,words",
    [
        ("{", "JSON"),
        ("[1]", "object"),
        ('{"n_token": 3}', "lacks.*d_model"),
        ('{"n_token": 3, "vocab_size": 4}', "disagree"),
    ],
)
def test_bad_files_are_named(tmp_path, text, words):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(UserError, match=words) as error:
        XLNetConfig.from_json_file(str(path))
    assert str(path) in str(error.value)
    with pytest.raises(UserError, match="does not exist"):
        XLNetConfig.from_json_file(str(tmp_path / "none.json"))


def test_activation_dropout_follows_dropout():
    config = XLNetConfig(**SIZES, dropout=0.2)
    assert config.inner_dropout == 0.2
    assert config.replace(activation_dropout=0.0).inner_dropout == 0.0
    none = config.replace(dropout=0.0, dropatt=0.0)
    assert any(config.dropout_rates) and not any(none.dropout_rates)


def test_named_sizes():
    base, large = XLNetConfig.base(), XLNetConfig.large(mem_len=384)
    assert (base.n_layer, base.d_model, base.d_inner) == (12, 768, 3072)
    assert (large.n_layer, large.n_head, large.mem_len) == (24, 16, 384)


def test_blind_rows_are_kept_with_the_model(tmp_path):
    """A choice of the commands reaches every model that reads the folder."""
    from modeling import PretrainingModel

    config = XLNetConfig(50, 8, 1, 2, 4, 16, blind_rows="original")
    path = str(tmp_path / "xlnet_config.json")
    config.to_json_file(path)
    read = XLNetConfig.from_json_file(path)
    assert read == config
    assert PretrainingModel(read).encoder.blind_rows == "original"
    plain = PretrainingModel(read.replace(blind_rows="zero"))
    assert plain.encoder.blind_rows == "zero"
    assert "blind_rows" not in plain.config.to_json()
    chosen = PretrainingModel(read, blind_rows="zero")
    assert chosen.encoder.blind_rows == "zero"
    with pytest.raises(UserError, match="`blind_rows` must be one of"):
        XLNetConfig(50, 8, 1, 2, 4, 16, blind_rows="mean")


def test_texts_that_begin_without_memory_have_all_keys_before_them():
    """With same_length a token that no memory precedes saw itself alone."""
    config = XLNetConfig(
        **SIZES, attn_type="uni", same_length=True, mem_len=4, reuse_len=2
    )
    wanted = {"mem_len": 7, "reuse_len": None, "same_length": False}
    assert config.with_memory(7) == config.replace(**wanted)
