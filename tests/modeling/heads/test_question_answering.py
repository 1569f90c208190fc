"""Spans: the original's training and beams."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import SpanModel
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
