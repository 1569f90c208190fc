"""Canonical names are the original's."""

import json

import pytest

from modeling import (
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    XLNetModel,
)
from modeling.checkpoints.names import named_variables
from modeling.encoders.xlnet import original
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
