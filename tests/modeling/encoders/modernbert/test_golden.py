"""ModernBERT against Hugging Face's numbers: padded, packed, backward."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import ClassificationModel
from modeling.attention import plain, rotary
from modeling.attention.relative import probabilities
from modeling.checkpoints import restore as checkpoints
from tests.modeling.encoders import golden_encoders as g


@pytest.fixture(scope="module", params=g.cases("modernbert"))
def case(request, golden):
    folder = golden / "encoders"
    weights = g.read(folder, request.param)
    return g.arrays_of(folder, request.param), weights, folder / request.param


def _inputs(arrays, kind):
    stored = g.below(arrays, f"{kind}/in")
    mask = None if kind == "nopad" else stored["attention_mask"]
    return {"input_ids": stored["input_ids"], "input_mask": mask}


def _real(x, mask):
    """Rows of padding mean nothing: theirs are stored as 0."""
    return np.asarray(x) * np.asarray(mask, np.float32)[..., np.newaxis]


def test_states_and_gradients(case):
    arrays, weights, _ = case
    model, inputs = weights.model, _inputs(arrays, "pad")
    mask = inputs["input_mask"]
    with tf.GradientTape() as tape:
        out = model(**inputs, output_hidden_states=True)
        logits = model.lm_logits(out.sequence_output)
        loss = g.mean_loss(logits, arrays["pad/in/labels"])
    computed = {
        f"layer_{i}": state for i, state in enumerate(out.hidden_states[1:])
    }
    computed["embeddings"] = out.hidden_states[0]
    computed["final_norm"] = out.sequence_output
    computed["head"] = model.lm_head.transform(out.sequence_output)
    around = model.encoder.surroundings(**inputs)
    for i, block in enumerate(model.encoder.blocks):
        x = out.hidden_states[i]
        layer_around = around[0 if weights.config.is_global(i) else 1]
        computed[f"attention_{i}"] = block.attend(x, layer_around)
        computed[f"mlp_{i}"] = block.feed_forward(
            x + computed[f"attention_{i}"]
        )
    states = g.below(arrays, "pad/hidden")
    assert len(states) > weights.config.n_layer
    for name, wanted in states.items():
        g.assert_close(_real(computed[name], mask), wanted, name)
    g.assert_close(_real(logits, mask), arrays["pad/mlm_logits"], "logits")
    g.assert_close(loss, arrays["pad/loss"], "loss")
    wanted = g.below(arrays, "pad/grad")
    g.assert_gradients(tape, loss, model, "pretraining", wanted)


def test_masks_positions_and_probabilities(case):
    arrays, weights, _ = case
    encoder, inputs = weights.model.encoder, _inputs(arrays, "pad")
    mask = inputs["input_mask"]
    around = encoder.surroundings(**inputs)
    states = encoder(**inputs, output_hidden_states=True).hidden_states
    for kind, kind_around in zip(
        ("full_attention", "sliding_attention"), around, strict=True
    ):
        g.assert_close(kind_around.cos[0], arrays[f"rope/{kind}/cos"], kind)
        g.assert_close(kind_around.sin[0], arrays[f"rope/{kind}/sin"], kind)
    for name, kind_around in zip(("global", "local"), around, strict=True):
        bias = (
            kind_around.mask
            if name == "global"
            else _dense(kind_around.mask, mask)
        )
        wanted = arrays[f"pad/{name}_visible"]
        seen = np.broadcast_to(np.asarray(bias) == 0, wanted.shape)
        rows = mask.astype(bool)
        np.testing.assert_array_equal(seen[rows], wanted[rows] > 0)
    for i, wanted in g.below(arrays, "pad/attention").items():
        kind_around = around[0 if weights.config.is_global(int(i)) else 1]
        block = encoder.blocks[int(i)]
        x = block.attention_input(states[int(i)])
        q, k, _ = block.heads(x, kind_around)
        bias = kind_around.mask
        if not weights.config.is_global(int(i)):
            bias = _dense(kind_around.mask, mask)
        p = probabilities(plain.scores(q, k, bias), tf.float32)
        p = np.asarray(tf.transpose(p, [1, 0, 2, 3]))
        real = p * mask[:, np.newaxis, :, np.newaxis]
        g.assert_close(real, wanted, f"probabilities {i}")


def _dense(mask, input_mask):
    """float32 [B, T, T] of a mask in blocks."""
    if not mask.blocks:
        return mask.mask
    batch, length = input_mask.shape
    blocks, half = mask.blocks, mask.half
    blocked = np.reshape(mask.mask, [batch, blocks, half, 3 * half])
    full = np.full([batch, blocks * half, (blocks + 2) * half], -1e30)
    for c in range(blocks):
        rows = slice(c * half, (c + 1) * half)
        full[:, rows, c * half : (c + 3) * half] = blocked[:, c]
    return full[:, :length, half : half + length].astype(np.float32)


def test_a_row_without_padding_and_a_packed_row(case):
    arrays, weights, _ = case
    model = weights.model
    for kind in ("nopad", "packed"):
        stored = g.below(arrays, f"{kind}/in")
        ids = np.atleast_2d(stored["input_ids"])
        extra = {}
        if kind == "packed":
            extra = {
                "positions": stored["position_ids"][np.newaxis],
                "documents": stored["document"][np.newaxis],
            }
        out = model(ids, **extra).sequence_output
        logits = model.lm_logits(out)
        g.assert_close(logits, arrays[f"{kind}/mlm_logits"], kind)
        loss = g.mean_loss(logits, np.atleast_2d(stored["labels"]))
        g.assert_close(loss, arrays[f"{kind}/loss"], f"{kind} loss")


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_classification(case, pooling):
    arrays, weights, folder = case
    kernel = arrays[f"cls_{pooling}/weight/classifier.weight"]
    config = weights.config.replace(pooling=pooling)
    model = ClassificationModel(config, kernel.shape[0])
    assert model.summary_type == ("first" if pooling == "cls" else "mean")
    report = checkpoints.restore(model, str(folder), require="encoder")
    # The head of the language model comes along.
    assert all("classification" in name for name in report.fresh)
    model.class_dense.kernel.assign(kernel.T)
    model.class_dense.bias.assign(
        arrays[f"cls_{pooling}/weight/classifier.bias"]
    )
    inputs = _inputs(arrays, "pad")
    inputs["input_ids"] = arrays["cls/in/input_ids"]
    with tf.GradientTape() as tape:
        logits = model(**inputs)
        loss = g.mean_loss(logits, arrays["cls/in/labels"])
    g.assert_close(logits, arrays[f"cls_{pooling}/logits"], "logits")
    g.assert_close(loss, arrays[f"cls_{pooling}/loss"], "loss")
    wanted = g.below(arrays, f"cls_{pooling}/grad")
    g.assert_gradients(tape, loss, model, "classification", wanted, False)


def test_the_rotation_is_the_half_split_one():
    cos, sin = rotary.table(tf.constant([1]), 4, 100.0)
    x = tf.reshape(tf.constant([1.0, 2.0, 3.0, 4.0]), [1, 1, 1, 4])
    a, b = 1.0, 0.1  # angles: 100^0, 100^(-2/4)
    wanted = [
        np.cos(a) - 3 * np.sin(a),
        2 * np.cos(b) - 4 * np.sin(b),
        3 * np.cos(a) + np.sin(a),
        4 * np.cos(b) + 2 * np.sin(b),
    ]
    rotated = rotary.rotate(x, cos[tf.newaxis], sin[tf.newaxis])[0, 0, 0]
    np.testing.assert_allclose(rotated, wanted, rtol=1e-5)
