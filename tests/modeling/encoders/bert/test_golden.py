"""BERT and ALBERT against Hugging Face's numbers, forward and backward."""

import pytest
import tensorflow as tf

from modeling import ClassificationModel
from modeling.attention import plain
from modeling.attention.relative import probabilities
from modeling.checkpoints import restore as checkpoints
from tests.modeling.encoders import golden_encoders as g

CASES = g.cases("bert", "albert")
SECOND = {"nsp": "next_sentence_label", "sop": "sentence_order_label"}


def _inputs(arrays, kind):
    stored = g.below(arrays, f"{kind}/in")
    return {
        "input_ids": stored["input_ids"],
        "segment_ids": stored["token_type_ids"],
        "input_mask": None if kind == "nopad" else stored["attention_mask"],
    }


@pytest.fixture(scope="module", params=CASES)
def case(request, golden):
    folder = golden / "encoders"
    weights = g.read(folder, request.param)
    return g.arrays_of(folder, request.param), weights, folder / request.param


def _states(encoder, hidden_states, inputs):
    """The states with those within ALBERT's groups, as the golden ones."""
    mask = plain.mask_of(inputs["input_mask"])
    inner = encoder.config.inner_layers
    states, layers = [hidden_states[0]], encoder.applied_layers()
    for i, state in enumerate(hidden_states[1:]):
        x = hidden_states[i]
        if i == 0 and encoder.mapping is not None:
            x = encoder.mapping(x)
        for layer in layers[i * inner : (i + 1) * inner - 1]:
            x = layer(x, mask)
            states.append(x)
        states.append(state)
    return states


@pytest.mark.parametrize("kind", ["pad", "nopad"])
def test_states_losses_and_gradients(case, kind):
    arrays, weights, folder = case
    model, inputs = weights.model, _inputs(arrays, kind)
    second = "nsp" if f"{kind}/nsp_logits" in arrays else "sop"
    assert weights.head == "pretraining"
    with tf.GradientTape(persistent=True) as tape:
        out = model(**inputs, output_hidden_states=True)
        logits = model.lm_logits(out.sequence_output)
        mlm = g.mean_loss(logits, arrays[f"{kind}/in/labels"])
        pair = model.next_sentence_logits(
            out.sequence_output, input_mask=inputs["input_mask"]
        )
        labels = arrays[f"{kind}/in/{SECOND[second]}"]
        pair_loss = g.mean_loss(pair, labels)
        loss = mlm + pair_loss
    states = g.below(arrays, f"{kind}/hidden")
    mapped = states.pop("embedding_hidden_mapping_in", None)
    g.assert_close(out.hidden_states[0], states.pop("embeddings"), "embeddings")
    if mapped is not None:
        computed = model.encoder.mapping(out.hidden_states[0])
        g.assert_close(computed, mapped, "mapping")
    assert len(out.hidden_states) == model.config.n_layer + 1
    layer_states = _states(model.encoder, out.hidden_states, inputs)
    assert len(states) == len(layer_states) - 1 > 0
    for name, wanted in states.items():
        state = layer_states[int(name.removeprefix("layer_")) + 1]
        g.assert_close(state, wanted, name)
    for name, computed in (
        ("mlm_logits", logits),
        (f"{second}_logits", pair),
        ("mlm_loss", mlm),
        (f"{second}_loss", pair_loss),
        ("loss", loss),
    ):
        g.assert_close(computed, arrays[f"{kind}/{name}"], name)
    pooled = model.pooler(out.sequence_output, input_mask=inputs["input_mask"])
    g.assert_close(pooled, arrays[f"{kind}/pooled"], "pooled")
    wanted = g.below(arrays, f"{kind}/grad")
    if wanted:
        g.assert_gradients(tape, loss, model, "pretraining", wanted)
    if alone := g.below(arrays, f"{kind}/grad_mlm"):
        g.assert_gradients(tape, mlm, model, "pretraining", alone, False)


def test_attention_probabilities(case):
    arrays, weights, folder = case
    encoder = weights.model.encoder
    for kind in ("pad", "nopad"):
        inputs = _inputs(arrays, kind)
        output = encoder(**inputs, output_hidden_states=True)
        states = _states(encoder, output.hidden_states, inputs)
        layers = encoder.applied_layers()
        for i, wanted in g.below(arrays, f"{kind}/attention").items():
            x = states[int(i)]
            if int(i) == 0 and encoder.mapping is not None:
                x = encoder.mapping(x)
            q, k, _ = layers[int(i)].attention.heads(x)
            mask = plain.mask_of(inputs["input_mask"])
            p = probabilities(plain.scores(q, k, mask), tf.float32)
            made = tf.transpose(p, [1, 0, 2, 3])
            g.assert_close(made, wanted, f"{kind} layer {i}")


def test_classification(case):
    arrays, weights, folder = case
    classes = arrays["cls/weight/classifier.weight"].shape[0]
    model = ClassificationModel(weights.config, classes)
    assert model.summary_type == "first"
    report = checkpoints.restore(model, str(folder), require="encoder")
    # The pooler comes along: only the classifier is new.
    assert set(report.fresh) == {
        "model/classification/logit/kernel",
        "model/classification/logit/bias",
    }
    model.class_dense.kernel.assign(arrays["cls/weight/classifier.weight"].T)
    model.class_dense.bias.assign(arrays["cls/weight/classifier.bias"])
    inputs = _inputs(arrays, "pad")
    inputs["input_ids"] = arrays["cls/in/input_ids"]
    with tf.GradientTape() as tape:
        logits = model(**inputs)
        loss = g.mean_loss(logits, arrays["cls/in/labels"])
    g.assert_close(logits, arrays["cls/logits"], "logits")
    g.assert_close(loss, arrays["cls/loss"], "loss")
    g.assert_gradients(
        tape, loss, model, "classification", g.below(arrays, "cls/grad"), False
    )
