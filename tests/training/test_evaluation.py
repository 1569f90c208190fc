"""Batches of several lengths: known shapes, one trace each, same numbers."""

import numpy as np
import pytest
import tensorflow as tf

from tests.training import test_heads
from training import heads
from training.evaluation import Evaluator

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


@pytest.mark.parametrize("replicas", [1, 2])
def test_one_trace_per_length_and_the_numbers_of_padding(replicas, monkeypatch):
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{i}" for i in range(replicas)]
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
