"""Variables of one of several tasks rest while it is another one's turn."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from training.objectives.build import build_objective
from training.objectives.multi_task import MultiTaskObjective, TaskPart
from training.optim.optimizer import build_optimizer
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import build_learner
from training.step.train_step import Trainer

ENCODER = "model/transformer/layer_0/ff/layer_1/kernel"
HEADS = {
    "model/classification_a/logit/kernel": 0,
    "model/regression_b/logit/kernel": 1,
    "model/regression_b/logit/bias": 1,
}
TURNS = (0, 1, 1, 0, 1, 1, 1, 0)
KINDS = {
    "adam": {},
    "adamw": {"weight_decay": 0.3},
    "stable_adamw": {"optimizer": "stable_adamw", "weight_decay": 0.3},
    "decoupled": {
        "optimizer": "stable_adamw",
        "weight_decay": 0.3,
        "decouple_lr": True,
    },
    "layer-wise": {"weight_decay": 0.3, "lr_layer_decay_rate": 0.5},
    "gradient": {
        "lr_layer_decay_rate": 0.5,
        "lr_layer_decay_style": "gradient",
    },
}


def optimizer_of(names, options, tasks=HEADS):
    variables = {
        name: tf.Variable([[1.0, -2.0, 3.0]] if "kernel" in name else [0.5])
        for name in names
    }
    groups = build_groups(names, 2, options, tasks)
    return build_optimizer(
        options, Schedule(options, len(TURNS)), variables, groups
    )


def gradient_of(name, step):
    seed = [*names_of(None)].index(name)
    random = np.random.default_rng((seed, step))
    shape = [1, 3] if "kernel" in name else [1]
    return tf.constant(random.normal(size=shape), tf.float32)


def names_of(task):
    return [ENCODER, *(n for n, t in HEADS.items() if task in (t, None))]


def state_of(optimizer, name):
    variable = optimizer._variables[name]
    slots = (variable, optimizer.m[name], optimizer.v[name])
    return [x.numpy() for x in slots]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_head_takes_the_steps_of_its_task_alone(kind):
    options = OptimizerOptions(
        learning_rate=0.1, decay_method="constant", **KINDS[kind]
    )
    joint = optimizer_of(names_of(None), options)
    for step, task in enumerate(TURNS):
        before = {name: state_of(joint, name) for name in HEADS}
        shared = joint._variables[ENCODER].numpy()
        gradients = [
            gradient_of(name, step) * float(HEADS.get(name, task) == task)
            for name in names_of(None)
        ]
        squares = joint.apply(gradients, joint.step, 0.5, tf.constant(task))
        joint.step.assign_add(1)
        moved = np.sum(np.square(joint._variables[ENCODER].numpy() - shared))
        for name, (old, *slots) in before.items():
            new, *new_slots = state_of(joint, name)
            moved += np.sum(np.square(new - old))
            same = np.array_equal([old, *slots], [new, *new_slots])
            assert same == (HEADS[name] != task), (step, name)
        np.testing.assert_allclose(squares, moved, rtol=1e-4)
    np.testing.assert_array_equal(joint.turns, [3, 5])
    for task in (0, 1):
        names = [name for name, own in HEADS.items() if own == task]
        alone = optimizer_of(names, options, tasks=None)
        for step in (i for i, turn in enumerate(TURNS) if turn == task):
            gradients = [gradient_of(name, step) for name in names]
            alone.apply(gradients, alone.step, 0.5)
            alone.step.assign_add(1)
        for name in names:
            np.testing.assert_allclose(
                np.concatenate(state_of(joint, name)),
                np.concatenate(state_of(alone, name)),
                rtol=1e-6,
            )


@pytest.mark.parametrize("kind", ["ema_decay", "average_last"])
def test_averages_are_over_the_steps_of_the_run(kind):
    """A head that rests stays in them as it is, as the encoder does."""
    options = OptimizerOptions(
        learning_rate=0.1,
        decay_method="constant",
        **{kind: {"ema_decay": 0.75, "average_last": 4}[kind]},
    )
    joint = optimizer_of(names_of(None), options)
    wanted = {name: 0.0 for name in HEADS}
    moving = {name: joint._variables[name].numpy() for name in HEADS}
    for step, task in enumerate(TURNS):
        gradients = [gradient_of(name, step) for name in names_of(None)]
        joint.apply(gradients, joint.step, 1.0, tf.constant(task))
        joint.step.assign_add(1)
        for name in HEADS:
            now = joint._variables[name].numpy()
            moving[name] = 0.75 * moving[name] + 0.25 * now
            wanted[name] += now / 4 * (step >= 4)
    wanted = moving if kind == "ema_decay" else wanted
    for name in HEADS:
        np.testing.assert_allclose(
            joint.averages.by_name[name], wanted[name], rtol=1e-5
        )


CONFIG = XLNetConfig(
    vocab_size=13,
    d_model=6,
    n_layer=1,
    n_head=2,
    d_head=3,
    d_inner=7,
    dropout=0.0,
    dropatt=0.0,
)
PARTS = (("a", "classification", {"num_labels": 3}), ("b", "regression", {}))
ROWS, LENGTH = 4, 5


def batch_of(step):
    random = np.random.default_rng(step)
    ids = random.integers(3, 13, (ROWS, LENGTH)).astype(np.int32)
    return {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "input_mask": np.ones_like(ids),
        "label_ids": random.integers(0, 3, ROWS).astype(np.float32),
        "example_weight": np.array([1, 1, 0, 1], np.float32),
        "task": np.full(ROWS, TURNS[step], np.int32),
    }


def train(objective, batches, start, replicas=1, accumulation_steps=1):
    """Canonical name -> (weights, slots); `start` sets the first weights."""
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(replicas)],
        tf.distribute.ReductionToOneDevice(),
    )
    # The encoder stays, so what a head sees is that of a run on it alone.
    options = OptimizerOptions(
        learning_rate=0.1, decay_method="constant", freeze_layers=1
    )
    split = BatchSplit(ROWS, replicas, accumulation_steps)
    learner = build_learner(objective, strategy, split, options, 9)
    for name, variable in learner.variables.items():
        variable.assign(start(name, variable))
    values = {k: np.stack([b[k] for b in batches]) for k in batches[0]}
    dataset, _ = distribute(
        strategy,
        lambda _: tf.data.Dataset.from_tensor_slices(values),
        split,
    )
    Trainer(learner, dataset, 5).train(tf.constant(len(batches)))
    optimizer = learner.optimizer
    return {
        name: np.concatenate(
            [np.ravel(x.numpy()) for x in (v, optimizer.m[name])]
        )
        for name, v in learner.variables.items()
        if name in optimizer.m
    }, optimizer


def start(name, variable):
    """The same weights, whatever else the model holds."""
    name = name.replace("_a/", "/").replace("_b/", "/")
    random = np.random.default_rng(list(name.encode()))
    return random.normal(0, 0.5, variable.shape)


@pytest.mark.long
@pytest.mark.parametrize("replicas, accumulation_steps", [(1, 1), (2, 2)])
def test_joint_steps_are_those_of_single_tasks(replicas, accumulation_steps):
    singles = {
        name: build_objective(head, CONFIG, summary_type="last", **more)
        for name, head, more in PARTS
    }
    parts = [TaskPart(name, o, LENGTH) for name, o in singles.items()]
    batches = [batch_of(step) for step in range(len(TURNS))]
    joint, optimizer = train(
        MultiTaskObjective(CONFIG, parts),
        batches,
        start,
        replicas,
        accumulation_steps,
    )
    np.testing.assert_array_equal(optimizer.turns, [3, 5])
    for number, (name, objective) in enumerate(singles.items()):
        own = [b | {} for b in batches if b["task"][0] == number]
        for batch in own:
            del batch["task"]
            if name == "a":
                batch["label_ids"] = batch["label_ids"].astype(np.int32)
        alone, _ = train(objective, own, start)
        for theirs, wanted in alone.items():
            scope, rest = theirs.removeprefix("model/").split("/", 1)
            found = joint[f"model/{scope}_{name}/{rest}"]
            np.testing.assert_allclose(
                found, wanted, rtol=1e-4, atol=1e-5, err_msg=theirs
            )
        assert len(alone) == 4  # the pooler's and the output's
