"""Spans: the original's training and beams."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import SpanModel
from modeling.encoders.bert.config import BertConfig
from tests.modeling.golden import golden_util
from tests.modeling.golden.golden_util import NOISE, task_inputs

HEADS_CHECKPOINT = "xlnet_tiny_heads.ckpt"
TASK_SCOPE = [("_goldtask", "")]


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("prefix", ["train", "train_tpu", "train_leftpad"])
def test_span_training(golden, prefix):
    data = golden_util.load(golden, "squad_head")
    inputs = "in_leftpad" if prefix == "train_leftpad" else "in"
    model = SpanModel(golden_util.config(golden))
    golden_util.assign(model, golden, HEADS_CHECKPOINT, TASK_SCOPE)
    start = data[f"{inputs}/start_positions"]
    end = data[f"{inputs}/end_positions"]
    impossible = data[f"{inputs}/is_impossible"]
    with tf.GradientTape() as tape:
        output = model(
            **task_inputs(data, inputs),
            paragraph_mask=tf.constant(1.0 - data[f"{inputs}/p_mask"]),
            cls_index=tf.constant(data[f"{inputs}/cls_index"]),
            start_positions=tf.constant(start),
        )
        losses = [
            -tf.reduce_mean(tf.gather(log_probs, where, batch_dims=1))
            for log_probs, where in (
                (output.start_log_probs, start),
                (output.end_log_probs, end),
            )
        ]
        answerable = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(
                impossible, output.cls_logits
            )
        )
        total = 0.5 * (losses[0] + losses[1]) + 0.5 * answerable
    for name in ("start_log_probs", "end_log_probs", "cls_logits"):
        golden_util.assert_close(
            getattr(output, name), data[f"{prefix}/{name}"], name
        )
    golden_util.assert_close(total, data[f"{prefix}/loss"])
    expected = golden_util.gradients_of(data, f"{prefix}/grad")
    if expected:
        golden_util.assert_gradients(
            golden_util.stacked_gradients(tape, total, model), expected, NOISE
        )


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize(
    "prefix,starts,ends",
    [("infer_5x5", 5, 5), ("infer_3x2", 3, 2), ("infer_leftpad_5x5", 5, 5)],
)
def test_span_beams(golden, prefix, starts, ends):
    data = golden_util.load(golden, "squad_head")
    inputs = "in_leftpad" if "leftpad" in prefix else "in"
    model = SpanModel(golden_util.config(golden), starts, ends)
    golden_util.assign(model, golden, HEADS_CHECKPOINT, TASK_SCOPE)
    output = model(
        **task_inputs(data, inputs),
        paragraph_mask=1.0 - data[f"{inputs}/p_mask"],
        cls_index=data[f"{inputs}/cls_index"],
    )
    for name, value in output._asdict().items():
        expected = data[f"{prefix}/{name}"]
        if name.endswith("_index"):
            np.testing.assert_array_equal(value, expected, name)
        else:
            golden_util.assert_close(value, expected, name)
    # CLS is the last real token of these inputs.
    again = model(
        **task_inputs(data, inputs),
        paragraph_mask=1.0 - data[f"{inputs}/p_mask"],
    )
    np.testing.assert_array_equal(again.cls_logits, output.cls_logits)


LONGEST = 4  # tokens of an answer


@pytest.mark.parametrize("longest", [None, 1, LONGEST, 5, 40])
def test_independent_logits_search_spans_that_may_answer(longest):
    """Beams of an official search: the best spans are long, and CLS's end is
    the likeliest."""
    config = BertConfig(
        vocab_size=30, d_model=4, n_layer=1, n_head=1, d_inner=4
    )
    model = SpanModel(config, 2, 3, independent=True)
    length = 20
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(1, length, 2)).astype(np.float32)
    logits[0, :6, 0] += 9.0  # starts at the left, ends at the right
    logits[0, 15:, 1] += 9.0
    model.span_dense = lambda hidden: tf.constant(logits)
    ids = tf.constant(rng.integers(5, 30, (1, length)), tf.int32)
    cls = length - 1
    found = model(ids, cls_index=tf.constant([cls]), longest=longest)
    starts, ends = (
        tf.nn.log_softmax(logits[0, :, i]).numpy() for i in range(2)
    )
    limit = longest or length
    spans = {
        (i, j): starts[i] + ends[j]
        for i in range(cls)
        for j in range(i, min(i + limit, cls))
    }
    best_of = {
        i: max(v for (a, _), v in spans.items() if a == i) for i in range(cls)
    }
    order = sorted(best_of, key=best_of.get, reverse=True)
    assert found.start_top_index[0].numpy().tolist() == order[:2]
    for k in range(6):
        i, j = order[k // 3], int(found.end_top_index[0, k])
        score = found.start_top_log_probs[0, k // 3]
        score += found.end_top_log_probs[0, k]
        if k % 3 < sum(a == i for a, _ in spans):
            assert float(score) == pytest.approx(spans[i, j], abs=1e-5)
        else:  # there are not so many
            assert float(score) < -1e20
    odds = starts[cls] + ends[cls] - max(spans.values())
    assert float(found.cls_logits[0]) == pytest.approx(odds, abs=1e-4)
