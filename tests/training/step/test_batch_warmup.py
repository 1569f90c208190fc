"""Steps whose batch grows: sizes, and that a small step is a small batch."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from tests.helpers.runs import toy
from training import loop
from training.run_options import RunOptions
from training.step import batch_warmup
from training.step.batch_warmup import BatchWarmup

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden"


def test_sizes_by_tokens_are_the_golden_ones():
    path = GOLDEN / "batch_size_warmup.json"
    for case in json.loads(path.read_text()):
        sizes = list(range(case["min"], case["max"] + 1))
        found = batch_warmup.thresholds(sizes, case["warmup_tokens"])
        assert found == case["thresholds"]
        at = np.searchsorted(found, case["tokens"], side="right")
        assert [sizes[i] for i in at] == case["batch_size"]


def test_the_size_of_a_step():
    made = BatchWarmup(12, 6, 4, 1000)
    assert made.sizes() == [4, 6, 8, 10, 12]
    length, tokens, wanted = 7, 0, []
    ends = batch_warmup.thresholds(made.sizes(), 1000)
    for _ in range(40):
        index = np.searchsorted(ends, tokens, side="right")
        wanted.append(made.sizes()[index])
        tokens += wanted[-1] * length
    steps = [int(made.micro_batches(tf.constant(s), length)) for s in range(40)]
    assert [2 * n for n in steps] == wanted
    assert wanted[0] == 4 and wanted[-1] == 12
    for smallest in (0, 3, 12):
        with pytest.raises(UserError, match="multiple of the 2 rows"):
            BatchWarmup(12, 6, smallest, 10)
    with pytest.raises(UserError, match="go together"):
        RunOptions(model_dir="x", min_batch_size=4)


@pytest.mark.slow
def test_a_small_step_is_that_of_its_rows(tmp_path):
    """Three of four micro-batches of zeros change nothing but the cost."""

    class Objective(toy.ToyObjective):
        memory_len = 0

        def loss(self, model, batch, memory, training, seed):
            rows = batch["input_ids"].shape[0]
            empty = toy.Memory(
                (tf.zeros([rows, 0, 4]),), tf.zeros([rows], tf.int32)
            )
            out = super().loss(model, batch, empty, training, seed)
            return out._replace(new_memory=())

    def few(params):  # only the first two rows of a batch count
        def cut(batch):
            keep = tf.range(params["batch_size"]) < 2
            kept = tf.cast(keep, tf.float32)[:, tf.newaxis]
            weights = batch["target_weights"] * kept
            return batch | {"target_weights": weights}

        return toy.input_fn(params).map(cut)

    def train(name, input_fn, **changes):
        options = toy.run_options(tmp_path / name, train_steps=4, **changes)
        options = options.replace(
            grad_accumulation_steps=4, save_steps=0, iterations=2
        )
        said = []
        result = loop.train(
            Objective(groups=1), input_fn, options, say=said.append
        )
        (line,) = (line for line in said if line.startswith("batch "))
        assert ("from 2 rows on over 1000000 tokens" in line) == bool(changes)
        assert result.trace_count == 1
        return result.model.get_weights()

    warm = dict(min_batch_size=2, batch_size_warmup_tokens=10**6)
    small = train("small", toy.input_fn, **warm)
    for a, b in zip(small, train("few", few), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    whole = train("whole", toy.input_fn)
    assert any(
        np.abs(a - b).max() > 1e-4 for a, b in zip(small, whole, strict=True)
    )
    with pytest.raises(UserError, match="memory would be of an older text"):
        loop.train(
            toy.ToyObjective(),
            toy.input_fn,
            toy.run_options(
                tmp_path / "no",
                grad_accumulation_steps=2,
                min_batch_size=4,
                batch_size_warmup_tokens=9,
            ),
        )
