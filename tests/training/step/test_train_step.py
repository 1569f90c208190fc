"""One step by hand: seeds, sums, clipping, memory, for replicas and accumulation_steps.

The objective is linear: with rows x and weights a its loss is sum a (w . x),
so that the gradient, the norm and the update are known in closed form.
"""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modeling import XLNetConfig
from training.objectives.contract import LossOutput, Memory, Objective
from training.optim.loss_scale import LossScale
from training.optim.optimizer import AdamW
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups
from training.recurrent.memory_state import RecurrentMemory
from training.run_options import OptimizerOptions
from training.step.batch_split import BatchSplit, distribute
from training.step.learner import Learner
from training.step.train_step import (
    BASE_STATS,
    Trainer,
    fold_micro_batch,
    fold_seed,
)

ROWS, DIM, SLOTS = 12, 3, 2
NAME = "model/lm_loss/bias"
CONFIG = XLNetConfig(
    vocab_size=7,
    d_model=4,
    n_layer=2,
    n_head=1,
    d_head=2,
    d_inner=3,
    mem_len=SLOTS,
)


class Linear(Objective):
    """Layer 0 of its memory holds the seeds of a row, layer 1 its first x."""

    name = "pretraining"
    config = CONFIG
    metric_names = ("valid", "hits")
    memory_len = SLOTS
    row_groups = 2

    def build_model(self):
        model = tf_keras.Model()
        model.w = tf.Variable([0.5, -1.0, 2.0])
        model.built = True
        return model

    def loss(self, model, batch, memory, training, seed):
        assert training
        x, a = batch["x"], batch["weight"]  # [b, 3], [b]
        loss = tf.reduce_sum(a * tf.linalg.matvec(x, model.w))
        rows = tf.shape(x)[0]
        # Both halves of the seed in numbers that float32 holds.
        halves = tf.cast(tf.math.floormod(seed, 1 << 20), tf.float32)  # [2]
        here = (
            tf.tile(tf.tile(halves, [2])[tf.newaxis, tf.newaxis], [rows, 1, 1]),
            tf.tile(x[:, :1, tf.newaxis], [1, 1, 4]),
        )
        new = tuple(
            tf.concat([old[:, 1:], now], 1)
            for old, now in zip(memory.layers, here, strict=True)
        )
        metrics = {
            "hits": (tf.reduce_sum(batch["hits"]), tf.reduce_sum(2.0 * a)),
            "valid": (
                tf.reduce_sum(tf.cast(memory.length, tf.float32)),
                tf.constant(1.0) * tf.cast(rows, tf.float32),
            ),
        }
        return LossOutput(
            loss,
            tf.reduce_sum(a),
            metrics,
            {},
            Memory(new, tf.minimum(memory.length + 1, SLOTS)),
        )


def batches():
    """Three global batches; weights and resets differ from row to row."""
    rng = np.random.default_rng(3)
    return [
        {
            "x": rng.normal(size=(ROWS, DIM)).astype(np.float32),
            "weight": rng.integers(1, 6, ROWS).astype(np.float32),
            "hits": rng.integers(0, 3, ROWS).astype(np.float32),
            "input_ids": np.zeros((ROWS, 5), np.int32),
            "reset_memory": (np.arange(ROWS) % 5 == step),
        }
        for step in range(3)
    ]


def run(
    replicas=1,
    accumulation_steps=1,
    steps=3,
    seed=11,
    loss_scale=False,
    **options,
):
    """(history by column name, weights, memory by global row)."""
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(replicas)],
        tf.distribute.ReductionToOneDevice(),
    )
    options = OptimizerOptions(
        **(dict(learning_rate=0.1, adam_epsilon=0.5, clip=0.25) | options)
    )
    objective = Linear()
    split = BatchSplit(ROWS, replicas, accumulation_steps, 2)
    with strategy.scope():
        model = objective.build_model()
        variables = {NAME: model.w}
        groups = build_groups(variables, 2, options)
        optimizer = AdamW(options, Schedule(options, 10), variables, groups)
        scale = None
        if loss_scale:
            scale = LossScale(64.0, ROWS // replicas)
    memory = RecurrentMemory(objective, model, strategy, split)
    learner = Learner(
        objective,
        strategy,
        split,
        model,
        variables,
        groups,
        optimizer,
        memory,
        scale,
    )

    def input_fn(params):
        found = batches()
        return tf.data.Dataset.from_tensor_slices(
            {k: np.stack([b[k] for b in found]) for k in found[0]}
        )

    dataset, _ = distribute(strategy, input_fn, split)
    trainer = Trainer(learner, dataset, seed)
    # Known before anything is traced.
    assert trainer.stat_names == [*BASE_STATS, "hits", "valid"]
    trainer.train(tf.constant(steps))
    kept = memory.to_host()
    history = dict(zip(trainer.stat_names, trainer.last.T, strict=True))
    history["tokens"] = trainer.last_tokens
    return history, model.w.numpy(), kept.layers, kept


def by_hand(steps=3):
    """The same in plain numpy: Adam without decay on the mean loss."""
    w = np.array([0.5, -1.0, 2.0])
    m, v = np.zeros(DIM), np.zeros(DIM)
    rows = []
    for t, batch in enumerate(batches()[:steps], 1):
        x, a = batch["x"].astype(np.float64), batch["weight"]
        loss = (a * (x @ w)).sum() / a.sum()
        g = (a[:, None] * x).sum(0) / a.sum()
        norm = np.linalg.norm(g)
        g *= 0.25 / max(norm, 0.25)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        rate = 0.1 * (1 - (t - 1) / 10)
        factor = np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        update = rate * factor * m / (np.sqrt(v) + 0.5)
        w = w - update
        hits = batch["hits"].sum() / (2 * a.sum())
        rows.append([loss, rate, norm, np.linalg.norm(update), hits])
    return np.asarray(rows), w


# Replicas and accumulation_steps -> which global rows go through the model together.
SHAPES = {
    (1, 1): [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]],
    (2, 3): [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]],
}


def _check_seeds(found, replicas, accumulation_steps):
    """One seed for the rows of a micro-batch, another one for every other."""
    seeds = [
        tuple(found[row, slot, :2]) for slot in (0, 1) for row in range(ROWS)
    ]
    together = SHAPES[replicas, accumulation_steps]
    for rows in together:
        for slot in (0, 1):
            assert len({seeds[slot * ROWS + row] for row in rows}) == 1
    assert len(set(seeds)) == 2 * len(together)


@pytest.mark.long
@pytest.mark.parametrize("replicas, accumulation_steps", SHAPES)
def test_a_step_is_that_of_the_whole_batch(replicas, accumulation_steps):
    history, w, layers, state = run(replicas, accumulation_steps)
    wanted, wanted_w = by_hand()
    names = ("loss", "learning_rate", "gradient_norm", "update_norm", "hits")
    for i, name in enumerate(names):
        np.testing.assert_allclose(
            history[name], wanted[:, i], rtol=2e-5, err_msg=name
        )
    np.testing.assert_allclose(w, wanted_w, rtol=1e-5)
    assert history["tokens"] == 3 * ROWS * 5
    # The first step starts empty, the second has one slot where no reset is.
    reset = [b["reset_memory"] for b in batches()]
    length = np.zeros(ROWS)
    for step in range(3):
        length[reset[step]] = 0
        assert history["valid"][step] == pytest.approx(length.mean())
        length = np.minimum(length + 1, SLOTS)
    np.testing.assert_array_equal(state.length, length)
    # Every row kept its own x of the last step beside what it had read.
    for slot, step in ((0, 1), (1, 2)):
        np.testing.assert_array_equal(
            layers[1][:, slot, 0], batches()[step]["x"][:, 0]
        )
    _check_seeds(layers[0], replicas, accumulation_steps)


def test_the_gradient_is_larger_than_the_limit():
    # Else the order of division and clipping could not be seen.
    norms = by_hand()[0][:, 2]
    assert (norms > 0.25).any() and (norms < 3.0).all()


@pytest.mark.long
def test_loss_scaling_changes_nothing():
    history, w, *_ = run(2, 1, loss_scale=True)
    wanted, wanted_w = by_hand()
    np.testing.assert_allclose(w, wanted_w, rtol=1e-5)
    np.testing.assert_allclose(history["loss"], wanted[:, 0], rtol=2e-5)
    np.testing.assert_allclose(
        history["gradient_norm"], wanted[:, 2], rtol=2e-5
    )


def test_seeds_are_functions_of_all_they_are_made_of():
    calls = [(s, t, r) for s in (0, 1) for t in (0, 1, 2) for r in (0, 1, 2)]
    found = [
        tuple(fold_seed(s, tf.constant(t), r).numpy()) for s, t, r in calls
    ]
    for (seed, step, replica), value in zip(calls, found[:], strict=True):
        again = fold_seed(seed, tf.constant(step, tf.int64), replica)
        assert tuple(again.numpy()) == value
        for step in range(3):
            found.append(
                tuple(fold_micro_batch(tf.constant(value), step).numpy())
            )
    assert len(set(found)) == len(found) == len(calls) * 4
