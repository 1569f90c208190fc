"""The file of a configuration."""

import json

import pytest

from common.errors import UserError
from modeling.encoders import registry
from modeling.encoders.modernbert.config import ModernBertConfig

TINY = ModernBertConfig(
    vocab_size=23,
    d_model=8,
    n_layer=4,
    n_head=2,
    d_inner=6,
    local_window=4,
    max_position_embeddings=64,
)


def test_the_file_reads_back(tmp_path):
    changed = TINY.replace(
        local_theta=500.0, pooling="mean", extra={"sep_token_id": 2}
    )
    path = registry.write_config(str(tmp_path), changed)
    assert registry.read_config(path) == changed
    assert registry.config_from_dict(changed.to_dict()) == changed
    # More layers of a configuration that was read from a file.
    assert registry.read_config(path).replace(n_layer=6).n_layer == 6
    fields = json.loads(changed.to_json())
    del fields["global_attn_every_n_layers"]
    assert registry.config_from_dict(fields) == changed


@pytest.mark.parametrize(
    "change, message",
    [
        ({"attention_bias": True}, "only the decoder has a bias"),
        ({"hidden_size": 6}, "rotary halves"),
        ({"layer_types": ["full_attention"] * 4}, "global every 3"),
        ({"local_attention": 1}, ">= 2"),
        ({"hidden_activation": ["relu"]}, "`hidden_activation` must be one of"),
        ({"sliding_window": 5}, "`sliding_window` must be half of"),
        ({"classifier_pooling": "max"}, "pooling"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "yarn",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "`rope_scaling` must be null",
        ),
        ({"rope_scaling": {"factor": 2.0}}, "`rope_scaling` must be null"),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
            "object for each of",
        ),
        ({"rope_parameters": {"rope_theta": 1e4}}, "object for each of"),
        ({"rope_parameters": {"full_attention": 1e4}}, "object for each of"),
    ],
)
def test_a_wrong_file_is_one_line(change, message):
    fields = json.loads(TINY.to_json()) | change
    with pytest.raises(UserError, match=message):
        registry.config_from_dict(fields)


def test_no_list_is_made_of_more_layers_than_the_file_has(monkeypatch):
    """Of 1e12 layers it filled the memory before their number was refused."""
    fields = json.loads(TINY.to_json()) | {"num_hidden_layers": 10**12}
    monkeypatch.setattr(ModernBertConfig, "_layer_types", None)
    with pytest.raises(UserError, match="`layer_types` must be global"):
        registry.config_from_dict(fields)


@pytest.mark.parametrize("scaling", [None, {"rope_type": "default"}])
def test_positions_that_are_not_scaled_are_read(scaling):
    fields = json.loads(TINY.to_json()) | {"rope_scaling": scaling}
    theta = {"rope_theta": 77.0}
    fields["rope_parameters"] = {"full_attention": theta}
    del fields["global_rope_theta"]
    assert registry.config_from_dict(fields).global_theta == 77.0
