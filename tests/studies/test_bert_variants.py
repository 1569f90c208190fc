"""BERTs that differ in one thing: from the released form, and in that alone."""

import random

import numpy as np
import pytest
import tensorflow as tf
from tf_keras.src import backend

from common.errors import UserError
from modeling.checkpoints.names import named_variables
from modeling.encoders import registry
from modeling.encoders.bert.heads import BertLanguageModelHead
from modeling.heads.language_model import PretrainingModel
from modeling.ops.context import LayerContext
from studies import bert_variants, pretrain_variant

SIZES = dict(
    d_model=6,
    n_layer=2,
    n_head=3,
    d_inner=8,
    max_position_embeddings=7,
    init_std=0.3,
    dropout=0.0,
    dropatt=0.0,
)
# No tensor: one that is made while tests are collected initializes the devices,
# and tests of replicas could not split them any more.
IDS = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])


@pytest.fixture
def variant(monkeypatch):
    """Builds the pretraining model of a `model_type` of the study."""
    monkeypatch.setattr(registry, "ENCODERS", dict(registry.ENCODERS))
    monkeypatch.setattr(pretrain_variant, "ENCODERS", registry.ENCODERS)
    pretrain_variant.register()

    def build(model_type):
        backend._SEED_GENERATOR.generator = None
        random.seed(7)  # of the initializers of tf_keras
        config = registry.new_config(model_type, 11, SIZES)
        assert registry.config_from_dict(config.to_dict()) == config
        return PretrainingModel(config)

    return build


def test_norm_first_is_the_papers_form(variant):
    model = variant("bert_pre_norm")
    layer = model.encoder.groups[0][0]
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) * 0.5)
    x = rng.normal(size=(2, 4, 6)).astype(np.float32)

    def norm(part, h):
        centred = h - h.mean(-1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-12)
        return scaled * part.norm.gamma.numpy() + part.norm.beta.numpy()

    attention, ff = layer.attention, layer.ff
    w = {name: kernel.numpy() for name, kernel in attention.kernels.items()}
    b = {name: bias.numpy() for name, bias in attention.biases.items()}
    h, wanted = norm(attention, x), x + b["o"]
    for row in range(2):
        for n in range(3):
            q, k, v = (h[row] @ w[i][:, n] + b[i][n] for i in "qkv")
            p = tf.nn.softmax(q @ k.T / np.sqrt(2.0)).numpy()
            wanted[row] += p @ v @ w["o"][:, n].T
    inner = norm(ff, wanted) @ ff.kernel_1.numpy() + ff.bias_1.numpy()
    inner = tf.nn.gelu(inner, approximate=False).numpy()
    wanted = wanted + inner @ ff.kernel_2.numpy() + ff.bias_2.numpy()
    np.testing.assert_allclose(layer(tf.constant(x)), wanted, atol=1e-4)


def test_norm_first_drops_what_a_sublayer_adds(variant):
    layer = variant("bert_pre_norm").encoder.groups[0][0]
    layer.attention.config = layer.attention.config.replace(dropout=0.5)
    layer.ff.dropout_rate = 0.5
    x = tf.random.stateless_normal([2, 4, 6], [1, 2])
    context = LayerContext(True, tf.constant([3, 4]))
    for part in (layer.attention, layer.ff):
        added = part(x) - x
        dropped = part(x, context=context) - x
        kept = np.abs(dropped) > 1e-6
        assert 0.2 < np.mean(kept) < 0.8
        np.testing.assert_allclose(
            dropped[kept], 2 * added[kept], rtol=1e-3, atol=1e-5
        )


def test_an_untied_decoder_gets_the_gradient_of_the_logits(variant):
    model = variant("bert_untied")
    assert "model/lm_loss/decoder/kernel" in named_variables(model)
    table = model.encoder.embeddings.lookup_table
    assert model.lm_head.decoder.shape == table.shape
    hidden = tf.ones([2, 3, 6])
    targets, weights = tf.constant([[1, 2, 3], [4, 5, 6]]), tf.ones([2, 3])
    with tf.GradientTape() as tape:
        loss, *_ = model.lm_loss(hidden, targets, weights)
    own, words = tape.gradient(loss, [model.lm_head.decoder, table])
    assert words is None and np.abs(own).max() > 0.1
    states = BertLanguageModelHead.transform(model.lm_head, hidden)
    wanted = states @ tf.transpose(model.lm_head.decoder)
    np.testing.assert_allclose(model.lm_logits(hidden), wanted, atol=1e-5)
    with pytest.raises(UserError, match="--loss_chunk_size"):
        model.lm_loss(hidden, targets, weights, chunk_size=2)


def test_word_embeddings_begin_wider_or_narrower(variant):
    plain = variant("bert")
    for model_type, factor in (
        ("bert_half_words", 0.5),
        ("bert_double_words", 2.0),
    ):
        model = variant(model_type)
        pairs = zip(plain.weights, model.weights, strict=True)
        for a, b in pairs:
            own = a is plain.encoder.embeddings.lookup_table
            np.testing.assert_allclose(b, a * (factor if own else 1.0))


@pytest.mark.parametrize("model_type", ["bert_sinusoids", "albert_sinusoids"])
def test_positions_begin_as_sinusoids(variant, model_type):
    model = variant(model_type)
    table = model.encoder.embeddings.position_table.numpy()
    width = table.shape[1]
    scale = 2**0.5 * 0.3
    for place in range(7):
        for i in range(width // 2):
            angle = place / 10000 ** (2 * i / width)
            assert table[place, i] == pytest.approx(
                scale * np.sin(angle), abs=1e-6
            )
            assert table[place, width // 2 + i] == pytest.approx(
                scale * np.cos(angle), abs=1e-6
            )
    assert np.sqrt(np.mean(table**2)) == pytest.approx(0.3, rel=1e-5)
    assert model(IDS).sequence_output.shape == (2, 5, 6)


def test_without_order_a_row_is_a_bag_of_words(variant):
    shuffled = [4, 2, 0, 3, 1]
    mixed = tf.gather(IDS, shuffled, axis=1)
    differs = {}
    for model_type in ("bert", "bert_no_order"):
        model = variant(model_type)
        own, other = (model(ids).sequence_output for ids in (IDS, mixed))
        own = tf.gather(own, shuffled, axis=1)
        differs[model_type] = np.abs(own - other).max()
    assert differs["bert_no_order"] < 1e-5 < 0.1 < differs["bert"]


def test_variables_have_the_released_names(variant):
    plain = set(named_variables(variant("bert")))
    for model_type, (base, *_) in pretrain_variant.VARIANTS.items():
        if base == "xlnet":
            continue
        names = set(named_variables(variant(model_type)))
        if model_type.startswith("bert"):
            assert names - plain <= {"model/lm_loss/decoder/kernel"}
        assert all("bert_" not in name for name in names), model_type


def test_other_commands_know_no_variant():
    with pytest.raises(UserError, match="model_type must be one of"):
        registry.spec_of("bert_pre_norm")
    assert bert_variants.PreNormBert.model_type == "bert_pre_norm"
