"""Trajectories of the original's optimizers, groups, clipping, accumulation."""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.ops import fused as fusion
from training.optim.averages import AverageTrigger
from training.optim.clipping import clip_factor
from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups, describe, group_of
from training.run_options import OptimizerOptions, RunOptions

TOY_CASES = {
    "adamw": dict(
        learning_rate=0.01,
        warmup_steps=2,
        min_lr_ratio=0.1,
        weight_decay=0.01,
        adam_epsilon=1e-6,
        clip=1.0,
    ),
    "adamw_llrd": dict(
        learning_rate=0.01,
        weight_decay=0.05,
        adam_epsilon=1e-6,
        clip=0.25,
        lr_layer_decay_rate=0.75,
        lr_layer_decay_style="gradient",
    ),
    "adamw_cos_noclip": dict(
        learning_rate=0.03,
        warmup_steps=1,
        decay_method="cos",
        weight_decay=0.1,
        adam_epsilon=1e-8,
        clip=1e9,
    ),
    "adam": dict(
        learning_rate=0.01, warmup_steps=2, adam_epsilon=1e-6, clip=1.0
    ),
    "adam_llrd": dict(
        learning_rate=0.01,
        adam_epsilon=1e-3,
        clip=0.5,
        lr_layer_decay_rate=0.75,
        lr_layer_decay_style="gradient",
    ),
}
TRAIN_STEPS = {"adamw_cos_noclip": 6}


def run_toy(reference, case, steps=5):
    options = OptimizerOptions(**TOY_CASES[case])
    names = [str(n) for n in reference["names"]]
    variables = {n: tf.Variable(reference[f"init/{n}"]) for n in names}
    groups = build_groups(names, 3, options)
    schedule = Schedule(options, TRAIN_STEPS.get(case, 10))
    optimizer = AdamW(options, schedule, variables, groups)
    for step in range(steps):
        gradients = [tf.constant(reference[f"grads/{n}"][step]) for n in names]
        factor, _ = clip_factor(gradients, options.clip)
        optimizer.apply(gradients, optimizer.step, factor)
        optimizer.step.assign_add(1)
        yield step, variables, optimizer


@pytest.mark.shared
@pytest.mark.parametrize("case", TOY_CASES)
def test_trajectories_are_the_originals(golden, case):
    reference = np.load(golden / "optim" / "toy.npz")
    for step, variables, optimizer in run_toy(reference, case):
        for name, variable in variables.items():
            for what, value in (
                ("var", variable),
                ("m", optimizer.m[name]),
                ("v", optimizer.v[name]),
            ):
                np.testing.assert_allclose(
                    value.numpy(),
                    reference[f"{case}/{what}/{name}"][step],
                    rtol=1e-5,
                    atol=2e-6,
                    err_msg=f"{what} {name} step {step}",
                )


@pytest.mark.shared
def test_norms_before_clipping_are_the_originals(golden):
    reference = np.load(golden / "optim" / "toy.npz")
    names = [str(n) for n in reference["names"]]
    for step in range(5):
        gradients = [tf.constant(reference[f"grads/{n}"][step]) for n in names]
        _, norm = clip_factor(gradients, 1.0)
        np.testing.assert_allclose(
            norm, reference["adamw/gnorm"][step], rtol=1e-6
        )


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


def test_rate_multiplier_scales_update_and_decay():
    options = OptimizerOptions(
        learning_rate=0.1, weight_decay=0.2, lr_layer_decay_rate=0.5, clip=0.0
    )
    names = [
        "model/transformer/layer_0/ff/layer_1/kernel",
        "model/transformer/layer_1/ff/layer_1/kernel",
    ]
    variables = {n: tf.Variable([[2.0, -1.0, 3.0]]) for n in names}
    optimizer = AdamW(
        options,
        Schedule(options, 10),
        variables,
        build_groups(names, 2, options),
    )
    before = variables[names[0]].numpy()
    gradients = [tf.constant([[0.3, -0.7, 0.1]])] * 2
    optimizer.apply(gradients, optimizer.step)
    low, top = (variables[n].numpy() - before for n in names)
    np.testing.assert_allclose(low, top / 2, rtol=1e-6)
    m, v = 0.1 * 0.3, 0.001 * 0.09
    by_hand = -0.1 * (m / (np.sqrt(v) + 1e-8) + 0.2 * 2.0)
    np.testing.assert_allclose(top[0, 0], by_hand, rtol=1e-5)


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


def test_average_of_weights_follows_its_decay():
    options = OptimizerOptions(learning_rate=0.5, ema_decay=0.75)
    names = ["model/lm_loss/bias"]
    variables = {names[0]: tf.Variable([1.0, -2.0, 4.0])}
    optimizer = AdamW(
        options,
        Schedule(options, 9),
        variables,
        build_groups(names, 1, options),
    )
    start = variables[names[0]].numpy()
    optimizer.apply([tf.constant([1.0, 1.0, -1.0])], optimizer.step)
    np.testing.assert_allclose(
        optimizer.averages.by_name[names[0]].numpy(),
        0.75 * start + 0.25 * variables[names[0]].numpy(),
    )


@pytest.mark.parametrize("limit", [0.0, 0.5, 100.0])
def test_scale_and_clipping_are_one_factor(limit):
    random = np.random.default_rng(8)
    gradients = [tf.constant(random.normal(size=n)) for n in (3, 5)]
    gradients = [tf.cast(g, tf.float32) for g in gradients]
    scaled = [g * 0.25 for g in gradients]
    norm = np.sqrt(sum(np.sum(np.square(g)) for g in scaled))
    wanted = scaled
    if limit:
        wanted, _ = tf.clip_by_global_norm(scaled, limit)
    factor, found = clip_factor(gradients, limit, 0.25)
    np.testing.assert_allclose(found, norm, rtol=1e-6)
    for g, w in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(g * factor, w, rtol=1e-6)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_squares_are_those_of_the_update(weight_decay):
    options = OptimizerOptions(learning_rate=0.5, weight_decay=weight_decay)
    names = [
        "model/transformer/layer_0/ff/layer_1/kernel",
        "model/lm_loss/bias",
    ]
    variables = {n: tf.Variable([[1.0, -2.0], [4.0, 0.5]]) for n in names}
    groups = build_groups(names, 1, options)
    optimizer = AdamW(options, Schedule(options, 9), variables, groups)
    gradients = [tf.constant([[0.3, -1.0], [0.0, 2.0]])] * 2
    for _ in range(2):
        before = [v.numpy() for v in variables.values()]
        squares = optimizer.apply(gradients, optimizer.step, 0.5)
        optimizer.step.assign_add(1)
        moved = [
            np.sum(np.square(v.numpy() - b))
            for v, b in zip(variables.values(), before, strict=True)
        ]
        assert sum(moved) > 0.1
        np.testing.assert_allclose(squares, sum(moved), rtol=1e-5)


def test_zero_gradient_is_clipped_without_a_nan():
    factor, norm = clip_factor([tf.zeros([3]), tf.zeros([2])], 1.0)
    assert float(norm) == 0.0
    assert float(factor) == 1.0


@pytest.mark.parametrize("replicas", [1, 2])
def test_clusters_update_where_the_variables_lie(monkeypatch, replicas):
    """Compiled functions take the variables: one program for equal shapes."""
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(replicas)]
    )
    options = OptimizerOptions(
        learning_rate=0.5, weight_decay=0.3, ema_decay=0.9
    )
    names = [f"model/transformer/layer_{i}/ff/layer_1/kernel" for i in (0, 1)]
    start = np.array([[1.0, -2.0, 4.0], [0.5, 3.0, -1.0]], np.float32)
    gradients = [tf.constant(start[::-1]), tf.constant(start * start)]

    def build():
        variables = {n: tf.Variable(start) for n in names}
        groups = build_groups(names, 2, options)
        schedule = Schedule(options, 9)
        return variables, AdamW(options, schedule, variables, groups)

    plain, optimizer = build()
    for _ in range(3):
        wanted = optimizer.apply(gradients, optimizer.step, 0.5)
        optimizer.step.assign_add(1)

    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)
    with strategy.scope():
        clusters, optimizer = build()

    @tf.function(autograph=False)
    def step():
        def replica():
            step = optimizer.step.read_value()
            squares = optimizer.apply(gradients, step, 0.5)
            optimizer.step.assign_add(1)
            return squares

        return strategy.experimental_local_results(strategy.run(replica))

    for _ in range(3):
        squares = step()
    np.testing.assert_allclose(squares, [wanted] * replicas, rtol=1e-5)
    for name in names:
        copies = strategy.experimental_local_results(clusters[name])
        assert len(copies) == replicas
        for copy in copies:
            np.testing.assert_allclose(copy, plain[name], rtol=1e-5)
    programs = [
        [node.op for node in f.node_def]
        for f in step.get_concrete_function()
        .graph.as_graph_def()
        .library.function
        if f.attr["_XlaMustCompile"].b
    ]
    # AdamW and the moving average, on each device.
    assigned = sorted(p.count("AssignVariableOp") for p in programs)
    assert assigned == [1] * replicas + [3] * replicas


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_large_variables_have_programs_without_arrays_of_their_size(
    monkeypatch, weight_decay
):
    """Three of them, and every bit is that of the one."""
    options = OptimizerOptions(learning_rate=0.5, weight_decay=weight_decay)
    name = "model/transformer/layer_0/ff/layer_1/kernel"
    start = np.random.default_rng(3).normal(size=[7, 5]).astype(np.float32)
    monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)
    found = []
    for large in (36, 35):
        monkeypatch.setattr("training.optim.optimizer.LARGE", large)
        variable = tf.Variable(start)
        groups = build_groups([name], 1, options)
        optimizer = AdamW(
            options, Schedule(options, 9), {name: variable}, groups
        )

        @tf.function(autograph=False)
        def step(g, optimizer=optimizer):
            squares = optimizer.apply([g], optimizer.step, 0.3)
            optimizer.step.assign_add(1)
            return squares

        for i in range(3):
            squares = step(tf.constant(start[::-1] * (i + 1)))
        programs = [
            sum(node.op == "AssignVariableOp" for node in f.node_def)
            for f in step.get_concrete_function(start)
            .graph.as_graph_def()
            .library.function
            if f.attr["_XlaMustCompile"].b
        ]
        assert sorted(programs) == ([3] if large == 36 else [0, 1, 2])
        state = (variable, optimizer.m[name], optimizer.v[name])
        found.append([x.numpy() for x in state])
        found[-1].append(squares.numpy())
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


def test_the_mean_of_the_last_updates():
    options = OptimizerOptions(learning_rate=0.1, average_last=3)
    name = "model/lm_loss/bias"
    variables = {name: tf.Variable([1.0, -2.0])}
    groups = build_groups([name], 1, options)
    optimizer = AdamW(options, Schedule(options, 7), variables, groups)
    weights = []
    for step in range(7):
        optimizer.apply([tf.constant([0.3, step - 3.0])], optimizer.step)
        optimizer.step.assign_add(1)
        weights.append(variables[name].numpy())
        average = optimizer.averages.by_name[name].numpy()
        wanted = np.mean(weights[4:], 0) if step > 4 else weights[-1]
        np.testing.assert_allclose(average, wanted, rtol=1e-5)


def test_averaging_begins_when_evaluations_get_no_better():
    """Algorithm 1 of the paper, with all losses at hand."""
    random = np.random.default_rng(4)
    begun = set()
    for patience in (1, 2, 5):
        for _ in range(20):
            losses = 5 / np.arange(1, 13) + random.normal(size=12) * 0.3
            losses = losses.astype(np.float32)
            trigger = AverageTrigger(patience)
            found = [
                step
                for step, loss in enumerate(losses)
                if trigger.note(step, float(loss))
            ]
            wanted = [
                t
                for t in range(patience + 1, 12)
                if losses[t] > losses[: t - patience].min()
            ][:1]
            assert found == wanted
            assert not trigger.misses(11) and trigger.misses(12)
            begun |= {*found}
    assert len(begun) > 3


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ema_decay": 0.9, "average_last": 3}, "one average .*average_last"),
        ({"average_trigger": -1}, "--average_trigger must be >= 0"),
    ],
)
def test_averages_are_checked(changes, message):
    with pytest.raises(UserError, match=message):
        OptimizerOptions(**changes)
    with pytest.raises(UserError, match="give --eval_every"):
        RunOptions("x", optimizer=OptimizerOptions(average_trigger=2))
    with pytest.raises(UserError, match="at most --train_steps .100"):
        last = OptimizerOptions(average_last=101)
        RunOptions("x", train_steps=100, optimizer=last)
