"""ModernBERT: Hugging Face's numbers, long rows and packed ones."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import ClassificationModel, PretrainingModel
from modeling.attention import plain
from modeling.attention.relative import probabilities
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders.modernbert.config import ModernBertConfig
from tests.modeling.encoders import golden_encoders as g
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions


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


TINY = ModernBertConfig(
    vocab_size=23,
    d_model=8,
    n_layer=4,
    n_head=2,
    d_inner=6,
    local_window=4,
    max_position_embeddings=64,
)


@pytest.mark.long
@pytest.mark.parametrize(
    "config, encoder, whole, millions",
    [
        (ModernBertConfig.base(), 149_014_272, 149_655_232, (149.0, 149.7)),
        (ModernBertConfig.large(), 394_781_696, 395_881_664, (394.8, 395.9)),
    ],
)
def test_parameters_of_the_recipes(config, encoder, whole, millions):
    with tf.Graph().as_default():
        model = PretrainingModel(config)
        sizes = {
            name: variable.shape.num_elements()
            for name, variable in named_variables(model).items()
        }
    of_the_encoder = [n for n in sizes if n.startswith(model.encoder.scope)]
    assert sum(sizes[n] for n in of_the_encoder) == encoder
    assert sum(sizes.values()) == whole
    rounded = (round(encoder / 1e6, 1), round(whole / 1e6, 1))
    assert rounded == millions
    assert [n for n in sizes if n.endswith("/bias")] == ["model/lm_loss/bias"]
    groups = build_groups(sizes, config.n_layer, OptimizerOptions())
    assert {g.layer for g in groups.values()} >= {-1, None, config.n_layer - 1}
    assert not groups["model/modernbert/final/LayerNorm/gamma"].decayed


def random_model():
    model = PretrainingModel(TINY)
    for i, variable in enumerate(model.variables):
        if variable.shape.rank > 1:
            values = tf.random.stateless_normal(variable.shape, [3, i])
            variable.assign(0.3 * values)
    return model


def test_long_rows_take_the_blocks_and_equal_packed_ones():
    """Blocks, several documents in a row, and padding: the same numbers."""
    model = random_model().encoder
    rng = np.random.default_rng(5)
    lengths = (9, 13, 6)
    texts = [rng.integers(0, 23, n) for n in lengths]
    row = np.concatenate([*texts, [0, 0]])[np.newaxis]
    documents = np.repeat([1, 2, 3, 0], [*lengths, 2])[np.newaxis]
    positions = np.concatenate(
        [np.arange(n) for n in (*lengths, 2)], dtype=np.int32
    )[np.newaxis]
    packed = model(
        row,
        input_mask=(documents > 0).astype(np.int32),
        positions=positions,
        documents=documents,
    ).sequence_output[0]
    assert model.surroundings(row)[1].mask.blocks > 0
    start = 0
    for text in texts:
        alone = model(text[np.newaxis]).sequence_output[0]
        own = packed[start : start + len(text)]
        np.testing.assert_allclose(own, alone, atol=2e-5)
        start += len(text)


@pytest.mark.long
def test_dropout_and_recomputation():
    config = TINY.replace(dropout=0.1, dropatt=0.2, mlp_dropout=0.3)
    plain = PretrainingModel(config)
    again = PretrainingModel(config, recompute="layer")
    for a, b in zip(plain.variables, again.variables, strict=True):
        b.assign(a)
    ids, seed = np.arange(20).reshape([2, 10]), tf.constant([3, 4])
    results = []
    for model in (plain, again):
        kernel = model.encoder.blocks[1].kernel_1
        with tf.GradientTape() as tape:
            out = model(ids, training=True, seed=seed).sequence_output
            loss = tf.reduce_sum(out**3)
        results.append((out, tape.gradient(loss, kernel)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    assert np.abs(results[0][0] - plain(ids).sequence_output).max() > 0.01
