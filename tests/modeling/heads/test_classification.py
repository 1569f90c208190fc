"""Classification, regression and RACE: the original's values and gradients."""

import pytest
import tensorflow as tf

from modeling import ClassificationModel, MultipleChoiceModel
from tests.modeling.golden import golden_util
from tests.modeling.golden.golden_util import NOISE, task_inputs

HEADS_CHECKPOINT = "xlnet_tiny_heads.ckpt"
TASK_SCOPE = [("_goldtask", "")]


@pytest.mark.long
@pytest.mark.shared
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
    golden_util.assign(model, golden, HEADS_CHECKPOINT, TASK_SCOPE)
    with tf.GradientTape() as tape:
        logits = model(**task_inputs(data))
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


@pytest.mark.long
@pytest.mark.shared
def test_race(golden):
    data = golden_util.load(golden, "race_head")
    inputs = {
        k: tf.reshape(v, [2, 4, 12]) for k, v in task_inputs(data).items()
    }
    config = golden_util.config(golden)
    for kind in ("last", "first", "mean", "attn"):
        for proj in ("proj", "noproj"):
            model = MultipleChoiceModel(
                config, kind, proj == "proj", pooling="original"
            )
            golden_util.assign(model, golden, HEADS_CHECKPOINT, TASK_SCOPE)
            logits, loss = _race_loss(model, inputs, data)
            prefix = f"eval/{kind}/{proj}"
            golden_util.assert_close(logits, data[f"{prefix}/logits"])
            golden_util.assert_close(loss, data[f"{prefix}/per_example_loss"])
    model = MultipleChoiceModel(config)
    golden_util.assign(model, golden, HEADS_CHECKPOINT, TASK_SCOPE)
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
