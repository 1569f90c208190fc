"""Recipes of BERT, ALBERT and ModernBERT are the papers' sizes."""

import pytest

from flags.training import model_flags, pretrain_flags
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig

ENCODERS = {
    "bert_base": BertConfig.base(30000),
    "bert_large": BertConfig.large(30000),
    "albert_base": AlbertConfig(30000, 768, 12, 12, 3072),
    "albert_large": AlbertConfig(30000, 1024, 24, 16, 4096),
    "albert_xlarge": AlbertConfig(30000, 2048, 24, 16, 8192),
    "albert_xxlarge": AlbertConfig(30000, 4096, 12, 64, 16384),
    "modernbert_base": ModernBertConfig.base(30000, global_theta=10_000.0),
    "modernbert_large": ModernBertConfig.large(30000, global_theta=10_000.0),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_recipes_of_other_encoders(parse, name):
    parse(f"--recipe={name}")
    lines = pretrain_flags.apply_recipe()
    assert model_flags.from_flags(30000) == ENCODERS[name]
    o = pretrain_flags.run_from_flags().optimizer
    what = pretrain_flags.from_flags()
    assert what.objective == "mlm"
    if name.startswith("modernbert"):
        assert (o.optimizer, o.decay_method, o.clip) == (
            "stable_adamw",
            "wsd",
            0.0,
        )
        assert what.mask_rate == 0.3
    assert any("not from the paper" in line for line in lines)
