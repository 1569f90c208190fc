"""The file of a configuration."""

import json
import pathlib

import pytest

from common.errors import UserError
from modeling.encoders import registry
from modeling.encoders.bert.config import AlbertConfig, BertConfig

TINY = dict(vocab_size=19, d_model=8, n_layer=3, n_head=2, d_inner=12)
ALBERT = AlbertConfig(
    **TINY, embedding_size=4, num_groups=1, max_position_embeddings=9
)


@pytest.mark.parametrize("config", [BertConfig(**TINY), ALBERT])
def test_the_file_reads_back(config, tmp_path):
    changed = config.replace(dropout=0.3, extra={"pad_token_id": 0})
    path = registry.write_config(str(tmp_path), changed)
    assert path.endswith("config.json")
    assert registry.read_config(path) == changed
    assert registry.config_from_dict(changed.to_dict()) == changed
    assert json.loads(pathlib.Path(path).read_text())["hidden_size"] == 8
    assert registry.config_file_in(str(tmp_path)) == path


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hidden_size": 9}, "multiple of `n_head`"),
        ({"hidden_act": "swish"}, "hidden_act.*'swish'"),
        ({"num_hidden_layers": 0}, "n_layer.*>= 1"),
        ({"hidden_dropout_prob": 1.0}, "must be in"),
        ({"position_embedding_type": "relative_key"}, "absolute"),
        ({"is_decoder": True}, "is_decoder"),
        ({"d_model": 16}, "disagree"),
    ],
)
def test_a_wrong_file_is_one_line(change, message, tmp_path):
    path = tmp_path / "config.json"
    fields = json.loads(BertConfig(**TINY).to_json())
    path.write_text(json.dumps(fields | change))
    with pytest.raises(UserError, match=message) as caught:
        registry.read_config(str(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_memory_is_refused():
    config = BertConfig(**TINY)
    assert config.with_memory(None) is config
    with pytest.raises(UserError, match="bert has no memory"):
        config.with_memory(4)
