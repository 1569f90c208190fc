"""Batches of several lengths: known shapes, one trace each, same numbers."""

import math

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from tests.helpers.runs import toy
from tests.training.objectives import toy_heads as test_heads
from training.objectives import build as heads
from training.objectives.contract import Memory
from training.reporting.evaluation import Evaluator, _assemble
from training.step import guards

REAL = np.array([3, 3, 4, 4, 6, 6, 6, 6])
BATCH = 2


def rows():
    """Eight rows, padded on the left to T."""
    batch = test_heads.examples("classification")
    batch = {name: x[: len(REAL)] for name, x in batch.items()}
    place = np.arange(test_heads.T)[::-1]
    batch["input_mask"] = (place < REAL[:, np.newaxis]).astype(np.int32)
    return batch


def input_fn(lengths, seen):
    """Batches as short as fits, declared with an unknown length."""
    batch = rows()

    def cut(name, x, kept, width):
        return x[kept, -width:] if x.ndim > 1 else x[kept]

    def batches():
        for i in range(0, len(REAL), BATCH):
            kept = slice(i, i + BATCH)
            width = next(n for n in lengths if n >= REAL[kept].max())
            seen.append(width)
            yield {name: cut(name, x, kept, width) for name, x in batch.items()}

    signature = {
        name: tf.TensorSpec([BATCH] + [None] * (x.ndim - 1), x.dtype)
        for name, x in batch.items()
    }
    return lambda params: tf.data.Dataset.from_generator(
        batches, output_signature=signature
    )


@pytest.mark.long
@pytest.mark.parametrize("replicas", [1, 2])
def test_one_trace_per_length_and_the_numbers_of_padding(replicas, monkeypatch):
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(replicas)],
        # Collectives of the default wait for each other in the few threads
        # of a small machine, and stopped a run of all tests.
        tf.distribute.ReductionToOneDevice(),
    )
    widths = []
    objective = heads.build_objective(
        "classification",
        test_heads.CONFIG,
        **test_heads.OPTIONS["classification"],
    )
    plain = objective.loss

    def traced(model, batch, *rest, **more):
        widths.append(batch["input_ids"].shape[1])
        return plain(model, batch, *rest, **more)

    monkeypatch.setattr(objective, "loss", traced)
    with strategy.scope():
        model = objective.build_model()
    results = {}
    for lengths in ((3, 4, 6), (6,)):
        seen = []
        widths.clear()
        evaluator = Evaluator(
            objective, model, strategy, input_fn(lengths, seen), BATCH
        )
        results[lengths] = [evaluator.run(), evaluator.run()]
        assert sorted(set(seen)) == sorted(set(widths)) == list(lengths)
        assert len(widths) == replicas * len(lengths)
    short, padded = results.values()
    for a in short:
        np.testing.assert_allclose(
            a.predictions["logits"], padded[0].predictions["logits"], atol=1e-5
        )
        assert a.metrics == pytest.approx(padded[0].metrics, abs=1e-5)


# A row is reset at the second step.
MEMORY_ROWS, STEPS = 8, 3


class Counted(toy.ToyObjective):
    """With a metric that has a count of its own: targets per row."""

    metric_names = ("lm_loss", "per_row")

    def loss(self, *arguments, **options):
        output = super().loss(*arguments, **options)
        rows = tf.cast(tf.shape(output.new_memory.length)[0], tf.float32)
        output.metrics["per_row"] = (output.weight_sum, rows)
        return output


def toy_memory(rows):
    return Memory(
        (tf.zeros([rows, 3, toy.CONFIG.d_model]),), tf.zeros([rows], tf.int32)
    )


def toy_losses(objective, model, steps):
    """Loss and targets per row of all batches, the memory carried by hand."""
    memory, loss, weight = toy_memory(MEMORY_ROWS), 0.0, 0.0
    data = toy.input_fn({"batch_size": MEMORY_ROWS, "start_step": 0}, steps)
    for batch in data:
        keep = tf.cast(~batch["reset_memory"], tf.int32)
        memory = Memory(memory.layers, memory.length * keep)
        output = objective.loss(model, batch, memory, False, None)
        loss += float(output.loss_sum)
        weight += float(output.weight_sum)
        memory = output.new_memory
    return loss / weight, weight / (MEMORY_ROWS * steps)


def test_sums_go_over_all_batches_and_memory_begins_empty_each_time():
    strategy = tf.distribute.get_strategy()
    objective = Counted()
    model = objective.build_model()
    evaluator = Evaluator(
        objective,
        model,
        strategy,
        lambda params: toy.input_fn(params, STEPS),
        MEMORY_ROWS,
    )
    wanted = {n: toy_losses(objective, model, n) for n in (2, STEPS)}
    assert abs(wanted[2][0] - wanted[STEPS][0]) > 1e-3
    for steps, batches in ((-1, STEPS), (2, 2), (-1, STEPS), (9, STEPS)):
        metrics = evaluator.run(steps).metrics
        loss, per_row = wanted[batches]
        assert metrics == pytest.approx(
            {
                "loss": loss,
                "lm_loss": loss,
                "per_row": per_row,
                "perplexity": math.exp(loss),
            },
            rel=1e-5,
        )


class Uncounted(toy.ToyObjective):
    """A metric that counts in no row, beside the loss of some."""

    metric_names = ("lm_loss", "pairs")

    def __init__(self, weight):
        super().__init__()
        self._weight = weight

    def loss(self, model, batch, memory, training, seed):
        weights = {"target_weights": batch["target_weights"] * self._weight}
        output = super().loss(model, batch | weights, memory, training, seed)
        pairs = (tf.constant(0.0), tf.constant(0.0))
        return output._replace(metrics=output.metrics | {"pairs": pairs})


def test_nothing_that_counts_is_no_loss_of_zero():
    def evaluate(weight, metric_fn=None):
        objective = Uncounted(weight)
        return Evaluator(
            objective,
            objective.build_model(),
            tf.distribute.get_strategy(),
            lambda params: toy.input_fn(params, STEPS),
            MEMORY_ROWS,
            metric_fn=metric_fn,
        ).run()

    with pytest.raises(UserError, match=f"of {STEPS} batch.* found none") as e:
        evaluate(0.0)
    assert "\n" not in str(e.value)
    # A task has metrics of its own: tags that were not known are misses.
    assert evaluate(0.0, lambda result: {"f1": 0.0}).metrics == {"f1": 0.0}
    result = evaluate(1.0)
    assert sorted(result.metrics) == ["lm_loss", "loss", "perplexity"]
    assert result.counts["pairs"] == 0


def test_the_last_ragged_batch_counts_its_own_rows_only():
    """Every metric is a sum over all examples, divided by its own count."""
    batch = test_heads.examples("token_classification")
    batch["label_ids"] = np.where(
        np.arange(test_heads.T) < np.arange(1, 12)[:, None] % 6, 1, -1
    ).astype(np.int32)
    objective = heads.build_objective(
        "token_classification", test_heads.CONFIG, num_labels=3
    )
    model = objective.build_model()
    once = test_heads.functions(batch)[1]
    results = [
        Evaluator(
            objective, model, tf.distribute.get_strategy(), once, rows
        ).run()
        for rows in (11, 4)
    ]
    whole, parts = results
    assert whole.metrics == pytest.approx(parts.metrics, rel=1e-5)
    assert parts.indices.tolist() == list(range(test_heads.N))
    for name, value in whole.predictions.items():
        np.testing.assert_allclose(parts.predictions[name], value, atol=1e-5)
    logits = whole.predictions["logits"]
    counted = batch["label_ids"] >= 0
    right = (logits.argmax(-1) == batch["label_ids"])[counted]
    assert whole.metrics["accuracy"] == pytest.approx(right.mean())


@pytest.mark.parametrize("with_loss", [True, False])
def test_a_batch_that_does_not_fit_names_the_flags_of_its_size(with_loss):
    """Also within a training, whose own flags would not help."""
    objective = heads.build_objective(
        "classification",
        test_heads.CONFIG,
        **test_heads.OPTIONS["classification"],
    )
    evaluator = Evaluator(
        objective,
        objective.build_model(),
        tf.distribute.get_strategy(),
        test_heads.functions(test_heads.examples("classification"))[1],
        4,
        with_loss,
    )

    def full(batch):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM of [9,9]")

    evaluator._step = full
    with pytest.raises(UserError) as info:
        with guards.translate_errors(1, None):
            evaluator.run()
    assert str(info.value) == (
        "out of memory: take a smaller --eval_batch_size or, for predictions, "
        "--predict_batch_size (OOM of [9,9])"
    )


def test_outputs_come_in_input_order_once_each():
    rows = [
        {
            "logits": np.array([[3.0], [1.0], [9.0]]),
            "batch/example_index": np.array([3, 1, 0]),
            "batch/example_weight": np.array([1.0, 1.0, 0.0]),
            "batch/label_ids": np.array([13, 11, 99]),
        },
        {
            "logits": np.array([[0.0, 7.0], [2.0, 7.0], [9.0, 9.0]]),
            "batch/example_index": np.array([0, 2, 0]),
            "batch/example_weight": np.array([1.0, 1.0, 0.0]),
            "batch/label_ids": np.array([10, 12, 99]),
        },
    ]
    result = _assemble({}, rows, ("label_ids",))
    assert result.indices.tolist() == [0, 1, 2, 3]
    assert result.labels["label_ids"].tolist() == [10, 11, 12, 13]
    # The first batch was shorter: its rows are padded with zeros.
    assert result.predictions["logits"].tolist() == [
        [0, 7],
        [1, 0],
        [2, 7],
        [3, 0],
    ]
    rows[1]["batch/example_index"][0] = 3
    with pytest.raises(UserError, match="3 came twice"):
        _assemble({}, rows, ("label_ids",))
