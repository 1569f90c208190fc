"""Sizes by flags, by a file, and what may be changed of it."""

import pytest
from absl import flags

from common.errors import UserError
from flags.training import model_flags
from modeling import XLNetConfig
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig


def test_a_size_that_contradicts_the_file_is_refused(parse, tmp_path):
    path = tmp_path / "xlnet_config.json"
    XLNetConfig.base(dropout=0.3).to_json_file(path)
    parse(f"--model_config_path={path}", "--n_layer=6", "--mem_len=8")
    with pytest.raises(
        UserError,
        match="`n_layer` wanted 6, found 12; leave out flags of other sizes",
    ):
        model_flags.from_flags(32000)
    with pytest.raises(UserError, match="vocabulary of the data 10"):
        model_flags.from_flags(10)


def test_free_fields_come_on_top_of_the_file(parse, tmp_path):
    path = tmp_path / "xlnet_config.json"
    XLNetConfig.base(dropout=0.3).to_json_file(path)
    parse(f"--model_config_path={path}", "--mem_len=8")
    config = model_flags.from_flags(32000, reuse_len=4)
    assert (config.mem_len, config.reuse_len, config.dropout) == (8, 4, 0.3)


def test_a_warm_start_may_extend_the_context(parse):
    small = ModernBertConfig.base(50, global_theta=10_000.0, n_layer=2)
    parse("--global_theta=160000", "--max_position_embeddings=9000")
    config = model_flags.from_flags(50, small)
    assert (config.global_theta, config.max_position_embeddings) == (
        160_000.0,
        9000,
    )
    assert config.n_layer == 2
    # BERT's positions are a table; and a recipe's theta is not asked for.
    with pytest.raises(UserError, match="`max_position_embeddings` wanted 900"):
        model_flags.from_flags(50, BertConfig.base(50))
    parse()
    flags.FLAGS.set_default("global_theta", 1.0)
    assert model_flags.from_flags(50, small) == small
