"""Buckets cut inside the step give what padded rows give."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.ops import fused as fusion
from tests.helpers.runs import toy
from tests.training.objectives import toy_heads as test_heads
from training import loop
from training.objectives import build as heads
from training.run_options import OptimizerOptions
from training.step.static_lengths import by_length

LENGTHS = (3, 4, 6)


class Fake:
    static_lengths = LENGTHS
    pads_left = True
    pack = False
    task_lengths = ()


@pytest.mark.parametrize("pads_left", [True, False])
@pytest.mark.parametrize(
    "longest,wanted", [(0, 3), (3, 3), (4, 4), (5, 6), (6, 6)]
)
def test_the_smallest_bucket_that_holds_every_row(longest, wanted, pads_left):
    mask = np.zeros((3, 2, 6), np.int32)
    mask[1, 0, :longest] = 1
    ids = np.arange(36).reshape(3, 2, 6)
    if pads_left:
        mask = mask[..., ::-1]
    batch = {
        "input_ids": tf.constant(ids),
        "input_mask": tf.constant(mask),
        "label_ids": tf.constant([[7] * 6]),
    }
    objective = Fake()
    objective.pads_left = pads_left

    @tf.function(autograph=False)
    def run(b):
        # The width goes out as a value, since shapes must be equal.
        def cut(c):
            first = c["input_ids"][:, :, 0]
            return first, tf.constant(c["input_ids"].shape[-1]), c["label_ids"]

        return by_length(objective, b, cut)

    first, width, labels = run(batch)
    assert width == wanted
    column = 6 - wanted if pads_left else 0
    np.testing.assert_array_equal(first, ids[:, :, column])
    assert labels.shape == (1, 6)


@pytest.mark.parametrize("lengths", [(), (6,)])
def test_without_buckets_nothing_is_cut(lengths):
    objective = Fake()
    objective.static_lengths = lengths
    batch = {"input_ids": tf.zeros([2, 6])}
    assert by_length(objective, batch, lambda b: b) is batch


@pytest.mark.long
def test_lengths_known_only_at_run_time_are_compiled_for(tmp_path, monkeypatch):
    objective = heads.build_objective(
        "classification",
        test_heads.CONFIG,
        **test_heads.OPTIONS["classification"],
    )
    seen = []
    plain = objective.loss

    def traced(model, batch, *rest, **more):
        seen.append(batch["input_ids"].shape.as_list())
        return plain(model, batch, *rest, **more)

    decided, decide = [], fusion.worthwhile

    def noted(*tensors, **more):
        found = decide(*tensors, **more)
        shapes = [tf.TensorShape(t.shape) for t in tensors if t is not None]
        if not all(shape.is_fully_defined() for shape in shapes):
            decided.append(found)
        return found

    monkeypatch.setattr(fusion, "worthwhile", noted)
    monkeypatch.setattr(objective, "loss", traced)
    endless, _ = test_heads.functions(test_heads.examples("classification"))

    def unknown(params):
        def cut(batch):
            kept = tf.random.stateless_uniform(
                [], batch["example_index"][:2], 3, 7, tf.int32
            )
            return {
                name: x[:, -kept:] if x.shape.rank > 1 else x
                for name, x in batch.items()
            }

        return endless(params).map(cut)

    options = toy.run_options(
        tmp_path, train_steps=5, save_steps=0, progress="none"
    )
    result = loop.train(objective, unknown, options)
    assert seen == [[options.train_batch_size, None]]
    assert decided and all(decided)
    assert result.trace_count == 1


@pytest.mark.slow
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("head", ["classification", "span", "multiple_choice"])
def test_training_is_the_same_as_with_padding(head, jit, tmp_path):
    """Rows of 1 to 6 tokens; also as one program with all the shapes (XLA)."""
    batch = test_heads.examples(head)
    rng = np.random.default_rng(5)
    # Four rows of one length after the other, as bucketed batches have them.
    real = np.repeat([3, 4, 6], 4)[: test_heads.N]
    place = np.arange(test_heads.T)
    mask = place < real[:, np.newaxis]
    if head != "span":
        mask = mask[:, ::-1]
    lead = batch["input_mask"].shape
    mask = mask.reshape([len(mask), *[1] * (len(lead) - 2), -1])
    batch["input_mask"] = np.broadcast_to(mask, lead).astype(np.int32)
    if head == "span":
        batch["paragraph_mask"] = batch["input_mask"]
        batch["cls_index"] = np.zeros_like(batch["cls_index"])
        start = rng.integers(0, 2, len(real)).astype(np.int32)
        batch["start_positions"] = batch["end_positions"] = start
    endless, once = test_heads.functions(batch)
    results = []
    for lengths in ((), LENGTHS):
        objective = heads.build_objective(
            head,
            test_heads.CONFIG,
            static_lengths=lengths,
            **test_heads.OPTIONS[head],
        )
        options = toy.run_options(
            tmp_path / str(len(lengths)),
            train_steps=6,
            save_steps=0,
            progress="none",
            train_batch_size=4,
            eval_batch_size=4,
            jit_compile=jit,
            # Adam makes much of rounding where a gradient is nearly zero.
            optimizer=OptimizerOptions(
                learning_rate=1e-3, warmup_steps=2, adam_epsilon=1e-6
            ),
        )
        trained = loop.train(objective, endless, options)
        evaluation = loop.evaluate(
            objective, once, options, model=trained.model
        )
        outputs = loop.predict(objective, once, options, model=trained.model)
        assert trained.trace_count == 1
        weights = trained.model.get_weights()
        results.append((weights, evaluation, outputs))
    padded, cut = results
    for a, b in zip(cut[0], padded[0], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    for name, value in padded[1].metrics.items():
        assert cut[1].metrics[name] == pytest.approx(value, abs=2e-5)
    assert padded[2].keys() == cut[2].keys()
    for name, value in padded[2].items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(cut[2][name], value, atol=5e-5)
