"""Decay, rates by layer and frozen layers, by a variable's canonical name."""

import json

import pytest
import tensorflow as tf

from common.errors import UserError
from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups, describe, group_of
from training.run_options import OptimizerOptions


@pytest.mark.shared
@pytest.mark.parametrize("rate", [0.75, 0.5])
def test_decay_and_gradient_multipliers_are_the_originals(golden, rate):
    table = json.loads((golden / "optim" / "variables_A.json").read_text())
    options = OptimizerOptions(
        lr_layer_decay_rate=rate, lr_layer_decay_style="gradient"
    )
    groups = build_groups(table, 3, options)
    assert len(groups) == len(table) > 60
    for name, row in table.items():
        assert groups[name].decayed == row["weight_decay"], name
        assert groups[name].gradient_multiplier == row[f"mult_{rate}"], name
        assert groups[name].lr_multiplier == 1.0


def test_layer_wise_rates_by_hand():
    options = OptimizerOptions(lr_layer_decay_rate=0.5)
    expected = {
        "model/transformer/word_embedding/lookup_table": 1 / 16,
        "model/transformer/mask_emb/mask_emb": 1 / 16,
        "model/transformer/layer_0/rel_attn/q/kernel": 1 / 8,
        "model/transformer/layer_0/rel_attn/r_w_bias": 1 / 8,
        "model/transformer/layer_0/rel_attn/seg_embed": 1 / 8,
        "model/transformer/layer_2/ff/LayerNorm/beta": 1 / 2,
        "model/transformer/layer_3/ff/layer_2/bias": 1.0,
        "model/transformer/r_w_bias": 1.0,
        "model/lm_loss/bias": 1.0,
        "model/classification_x/logit/kernel": 1.0,
    }
    for name, multiplier in expected.items():
        group = group_of(name, 4, options)
        assert group.lr_multiplier == multiplier, name
        assert group.gradient_multiplier == 1.0


def test_the_originals_style_scales_no_bias_of_attention():
    # The original stacks these over the layers and cannot tell them apart.
    options = OptimizerOptions(
        lr_layer_decay_rate=0.5, lr_layer_decay_style="gradient"
    )
    scope = "model/transformer/layer_0"
    wanted = {
        "rel_attn/r_w_bias": 1.0,
        "rel_attn/r_s_bias": 1.0,
        "rel_attn/seg_embed": 1.0,
        "rel_attn/q/kernel": 0.25,
        "ff/layer_1/bias": 0.25,
        "ff/LayerNorm/gamma": 0.25,
    }
    for name, multiplier in wanted.items():
        group = group_of(f"{scope}/{name}", 3, options)
        assert group.gradient_multiplier == multiplier, name
        assert group.lr_multiplier == 1.0


def test_a_variable_without_a_rule_is_an_error():
    names = ["model/transformer/layer_0/gate/kernel", "model/lm_loss/bias"]
    with pytest.raises(UserError, match="layer_0/gate/kernel"):
        build_groups(names, 1, OptimizerOptions())


def test_frozen_layers_have_no_slots_and_the_rest_is_listed():
    options = OptimizerOptions(freeze_layers=1, weight_decay=0.01)
    names = [
        "model/transformer/word_embedding/lookup_table",
        "model/transformer/layer_0/ff/layer_1/kernel",
        "model/transformer/layer_1/ff/layer_1/kernel",
        "model/lm_loss/bias",
    ]
    variables = {n: tf.Variable([1.0, 2.0]) for n in names}
    groups = build_groups(names, 2, options)
    optimizer = AdamW(options, Schedule(options, 5), variables, groups)
    assert [id(v) for v in optimizer.trained] == [
        id(variables[n]) for n in names[2:]
    ]
    assert set(optimizer.m) == set(names[2:])
    table = "\n".join(describe(groups, dict.fromkeys(names, 2), options))
    assert table.count("frozen") == 2 and "top" in table
    with pytest.raises(UserError, match="freeze_layers"):
        build_groups(names, 2, OptimizerOptions(freeze_layers=3))


def test_what_is_updated_alike_is_one_line_of_the_table():
    """Without weight decay a layer's biases are updated as its kernels."""
    names = [
        f"model/transformer/layer_{i}/ff/layer_1/{part}"
        for i in range(2)
        for part in ("kernel", "bias")
    ]

    def places(**options):
        options = OptimizerOptions(**options)
        groups = build_groups(names, 2, options)
        sizes = dict.fromkeys(names, 3)
        lines = describe(groups, sizes, options)
        return [line.split("variables")[0].split() for line in lines]

    once = [["layer", "0", "2"], ["layer", "1", "2"]]
    assert places() == once
    assert places(freeze_layers=1, weight_decay=0.1) == [
        once[0],
        *[["layer", "1", "1"]] * 2,
    ]
    twice = [["layer", i, "1"] for i in "0011"]
    assert places(weight_decay=0.1) == twice
