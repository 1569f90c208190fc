"""Trajectories of the original's optimizers, groups, clipping, accumulation."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import fused as fusion
from training.optim.clipping import clip_factor
from training.optim.optimizer import AdamW, build_optimizer
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions

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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(
    "kind, weight_decay, most",
    [
        ("adamw", 0.0, 31),
        ("adamw", 0.3, 35),
        ("stable_adamw", 0.0, 40),
        ("stable_adamw", 0.3, 47),
    ],
)
def test_what_variables_share_is_in_the_graph_once(kind, weight_decay, most):
    """Rates and bias corrections; a variable more adds its own update alone."""
    options = OptimizerOptions(
        optimizer=kind, learning_rate=0.5, weight_decay=weight_decay
    )

    def operations(count: int) -> int:
        variables = {
            f"model/transformer/layer_{i}/ff/layer_1/kernel": tf.Variable(
                tf.ones([7, 5])
            )
            for i in range(count)
        }
        groups = build_groups(list(variables), count, options)
        optimizer = build_optimizer(
            options, Schedule(options, 9), variables, groups
        )

        @tf.function(autograph=False)
        def step(g):
            return optimizer.apply([g] * count, optimizer.step, 0.3)

        return len(
            step.get_concrete_function(tf.ones([7, 5]))
            .graph.as_graph_def()
            .node
        )

    assert operations(12) - operations(2) <= 10 * most


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
