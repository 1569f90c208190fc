"""Which tokens a summary looks at, padding on either side."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modeling import ClassificationModel, XLNetConfig
from modeling.heads.pooling import SequenceSummary
from tests.modeling.golden import golden_util
from tests.modeling.golden.golden_util import task_inputs

T, D = 5, 4
CONFIG = XLNetConfig(
    vocab_size=9, d_model=D, n_layer=1, n_head=2, d_head=3, d_inner=6
)
HIDDEN = np.random.default_rng(0).normal(size=(3, T, D)).astype(np.float32)
MASK = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
REAL = [slice(2, 5), slice(0, 3), slice(0, 5)]


def pooled(kind, pooling="masked", **arguments):
    layer = SequenceSummary(CONFIG, kind, use_proj=False, pooling=pooling)
    layer.build([None, None, D])
    return layer(HIDDEN, input_mask=MASK, **arguments).numpy()


@pytest.mark.parametrize(
    "kind, pick",
    [
        ("mean", lambda x: x.mean(0)),
        ("first", lambda x: x[0]),
        ("last", lambda x: x[-1]),
    ],
)
def test_padding_is_not_looked_at_but_in_the_originals_way(kind, pick):
    wanted = [pick(x[real]) for x, real in zip(HIDDEN, REAL, strict=True)]
    np.testing.assert_allclose(pooled(kind), wanted, atol=1e-6)
    whole = [pick(x) for x in HIDDEN]
    np.testing.assert_allclose(pooled(kind, "original"), whole, atol=1e-6)


def test_a_given_position_comes_before_the_last_token():
    found = pooled("last", cls_index=np.array([2, 0, 3]))
    np.testing.assert_array_equal(found, HIDDEN[[0, 1, 2], [2, 0, 3]])
    np.testing.assert_array_equal(pooled("last", cls_index=1), HIDDEN[:, 1])


def test_attention_gives_padding_no_weight():
    layer = SequenceSummary(CONFIG, "attn", use_proj=False)
    layer.build([None, None, D])
    found = layer(HIDDEN, input_mask=MASK).numpy()
    moved = np.where(MASK[..., np.newaxis] == 1, HIDDEN, 7.0)
    again = layer(moved.astype(np.float32), input_mask=MASK).numpy()
    np.testing.assert_array_equal(found, again)


def test_a_call_names_the_position_that_a_model_has_by_default():
    model = ClassificationModel(CONFIG, 3, cls_index=0)
    other = ClassificationModel(CONFIG, 3, cls_index=2)
    other.set_weights(model.get_weights())
    wanted = other.logits(HIDDEN)
    np.testing.assert_array_equal(model.logits(HIDDEN, cls_index=2), wanted)
    assert np.abs(model.logits(HIDDEN) - wanted).max() > 1e-3


def test_a_summary_that_was_read_is_built_once():
    layer = SequenceSummary(CONFIG, "attn")
    layer.build([None, None, D])
    saved = tf_keras.saving.serialize_keras_object(layer)
    again = tf_keras.saving.deserialize_keras_object(saved)
    again.build([None, None, D])  # as the models do
    assert len(again.variables) == len(layer.variables)


HEADS_CHECKPOINT = "xlnet_tiny_heads.ckpt"
TASK_SCOPE = [("_goldtask", "")]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["finetune_nopad", "finetune_pad"])
def test_sequence_output_and_summaries(golden, name):
    data = golden_util.load(golden, name)
    config = golden_util.config(golden)
    inputs = task_inputs(data)
    model = ClassificationModel(config, 3, summary_type="attn")
    golden_util.assign(model, golden, HEADS_CHECKPOINT, TASK_SCOPE)
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
    mask = task_inputs(data)["input_mask"]
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
