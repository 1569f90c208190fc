"""Fine-tuning heads of the original: values, losses, gradients.

Padding is on the left there and `first` and `mean` look at it; ours do not,
so both forms are compared: `pooling="original"` with the stored numbers, and
the mask-aware form where the two must agree.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    XLNetModel,
)
from modeling.checkpoints.names import named_variables
from modeling.encoders.xlnet import original
from modeling.heads.pooling import SequenceSummary
from tests.modeling.golden import golden_util

pytestmark = pytest.mark.shared

HEADS = "xlnet_tiny_heads.ckpt"
TASK = [("_goldtask", "")]
# Exactly zero in theory (softmax ignores a shift); the stored ones are noise.
NOISE = {
    "start_logits/dense/bias",
    "end_logits/dense_1/bias",
    "end_logits/LayerNorm/beta",
    "logits/dense/bias",
}


def _inputs(data, prefix="in"):
    return {
        "input_ids": tf.constant(data[f"{prefix}/input_ids"]),
        "segment_ids": tf.constant(data[f"{prefix}/segment_ids"]),
        "input_mask": tf.constant(1.0 - data[f"{prefix}/input_mask"]),
    }


@pytest.mark.parametrize("name", ["finetune_nopad", "finetune_pad"])
def test_sequence_output_and_summaries(golden, name):
    data = golden_util.load(golden, name)
    config = golden_util.config(golden)
    inputs = _inputs(data)
    model = ClassificationModel(config, 3, summary_type="attn")
    golden_util.assign(model, golden, HEADS, TASK)
    hidden = model.encoder(**inputs).sequence_output
    golden_util.assert_close(
        tf.transpose(hidden, [1, 0, 2]), data["seq_out"], "sequence"
    )
    if "seq_out_mask_none" in data:
        inputs["input_mask"] = None
        golden_util.assert_close(
            tf.transpose(model.encoder(**inputs).sequence_output, [1, 0, 2]),
            data["seq_out_mask_none"],
        )
    mask = _inputs(data)["input_mask"]
    for kind in ("last", "first", "mean", "attn"):
        for proj in ("proj", "noproj"):
            pooled = {}
            for pooling in ("original", "masked"):
                summary = SequenceSummary(config, kind, proj == "proj", pooling)
                summary.build([None, None, config.d_model])
                _copy_summary(summary, model.pooler)
                pooled[pooling] = summary(hidden, input_mask=mask)
            expected = data[f"pooled/{kind}/{proj}"]
            golden_util.assert_close(pooled["original"], expected, kind)
            full = mask.numpy().all(1)
            if kind in ("last", "attn"):
                full[:] = True
            golden_util.assert_close(
                pooled["masked"].numpy()[full], expected[full], kind
            )


def _copy_summary(target, source):
    if target.projection is not None:
        target.projection.set_weights(source.projection.get_weights())
    if target.attention is not None:
        target.attention.set_weights(source.attention.get_weights())


@pytest.mark.parametrize("name", ["finetune_nopad", "finetune_pad"])
@pytest.mark.parametrize("kind", ["last", "first", "mean", "attn"])
@pytest.mark.parametrize("regression", [False, True])
def test_classification_and_regression(golden, name, kind, regression):
    data = golden_util.load(golden, name)
    head = "reg" if regression else "cls"
    model = ClassificationModel(
        golden_util.config(golden),
        1 if regression else 3,
        summary_type=kind,
        regression=regression,
        pooling="original",
    )
    golden_util.assign(model, golden, HEADS, TASK)
    with tf.GradientTape() as tape:
        logits = model(**_inputs(data))
        if regression:
            logits = tf.squeeze(logits, -1)
            loss = tf.square(logits - data["in/reg_label"])
        else:
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
                data["in/cls_label"], logits
            )
        total = tf.reduce_mean(loss)
    golden_util.assert_close(logits, data[f"{head}/{kind}/logits"])
    golden_util.assert_close(loss, data[f"{head}/{kind}/per_example_loss"])
    golden_util.assert_close(total, data[f"{head}/{kind}/total_loss"])
    expected = golden_util.gradients_of(data, f"{head}/{kind}/grad")
    if expected:
        actual = golden_util.stacked_gradients(tape, total, model)
        renamed = {
            k.replace(
                f"{'regression' if regression else 'classification'}/",
                f"{'regression' if regression else 'classification'}_goldtask/",
            ): v
            for k, v in actual.items()
        }
        golden_util.assert_gradients(renamed, expected)


def test_race(golden):
    data = golden_util.load(golden, "race_head")
    inputs = {k: tf.reshape(v, [2, 4, 12]) for k, v in _inputs(data).items()}
    config = golden_util.config(golden)
    for kind in ("last", "first", "mean", "attn"):
        for proj in ("proj", "noproj"):
            model = MultipleChoiceModel(
                config, kind, proj == "proj", pooling="original"
            )
            golden_util.assign(model, golden, HEADS, TASK)
            logits, loss = _race_loss(model, inputs, data)
            prefix = f"eval/{kind}/{proj}"
            golden_util.assert_close(logits, data[f"{prefix}/logits"])
            golden_util.assert_close(loss, data[f"{prefix}/per_example_loss"])
    model = MultipleChoiceModel(config)
    golden_util.assign(model, golden, HEADS, TASK)
    with tf.GradientTape() as tape:
        logits, loss = _race_loss(model, inputs, data)
        total = tf.reduce_mean(loss)
    for prefix in ("train", "train_tpu"):
        golden_util.assert_close(logits, data[f"{prefix}/logits"])
        golden_util.assert_close(total, data[f"{prefix}/total_loss"])
    golden_util.assert_gradients(
        golden_util.stacked_gradients(tape, total, model),
        golden_util.gradients_of(data, "train/grad"),
        NOISE,
    )


def _race_loss(model, inputs, data):
    logits = model(**inputs)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
        data["in/label_ids"], logits
    )
    return logits, loss


@pytest.mark.parametrize("prefix", ["train", "train_tpu", "train_leftpad"])
def test_span_training(golden, prefix):
    data = golden_util.load(golden, "squad_head")
    inputs = "in_leftpad" if prefix == "train_leftpad" else "in"
    model = SpanModel(golden_util.config(golden))
    golden_util.assign(model, golden, HEADS, TASK)
    start = data[f"{inputs}/start_positions"]
    end = data[f"{inputs}/end_positions"]
    impossible = data[f"{inputs}/is_impossible"]
    with tf.GradientTape() as tape:
        output = model(
            **_inputs(data, inputs),
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


@pytest.mark.parametrize(
    "prefix,starts,ends",
    [("infer_5x5", 5, 5), ("infer_3x2", 3, 2), ("infer_leftpad_5x5", 5, 5)],
)
def test_span_beams(golden, prefix, starts, ends):
    data = golden_util.load(golden, "squad_head")
    inputs = "in_leftpad" if "leftpad" in prefix else "in"
    model = SpanModel(golden_util.config(golden), starts, ends)
    golden_util.assign(model, golden, HEADS, TASK)
    output = model(
        **_inputs(data, inputs),
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
        **_inputs(data, inputs), paragraph_mask=1.0 - data[f"{inputs}/p_mask"]
    )
    np.testing.assert_array_equal(again.cls_logits, output.cls_logits)


def test_heads_checkpoint_names_all_variables_of_the_optimizer_table(golden):
    """Canonical names, stacked, are the original's."""
    with open(golden / "optim" / "variables_A.json") as f:
        table = json.load(f)
    config = golden_util.config(golden)
    for model in (
        PretrainingModel(config),
        SpanModel(config),
        MultipleChoiceModel(config, "attn"),
        XLNetModel(config),
    ):
        names = original.stack(
            {k: v.numpy() for k, v in named_variables(model).items()}
        )
        for name, value in names.items():
            assert table[name]["shape"] == list(value.shape), name
