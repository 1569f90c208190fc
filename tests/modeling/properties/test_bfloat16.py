"""mixed_bfloat16: near float32, and float32 where it matters."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, XLNetConfig
from modeling.attention import relative
from modeling.attention.positions import sinusoids
from modeling.encoders.modernbert import layer as modernbert
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import new_config
from modeling.heads.causal_lm import CausalLanguageModel
from modeling.ops import dropout, feed_forward, normalization
from tests.modeling.encoders.transformer_xl.toy_models import toy
from tests.modeling.golden import golden_util

CONFIG = XLNetConfig(
    vocab_size=29,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    mem_len=4,
)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["pretrain_tm", "pretrain_notm"])
def test_near_float32_on_golden_inputs(golden, name):
    data = golden_util.load(golden, name)
    config = golden_util.config(golden, mem_len=6, reuse_len=4)
    model = PretrainingModel(config, dtype="mixed_bfloat16")
    golden_util.assign(model, golden, "xlnet_tiny.ckpt")
    values = golden_util.gradients_of(data, "seg1/in")
    call = {
        "input_ids": values["input_k"],
        "segment_ids": values["seg_id"],
        "perm_mask": values["perm_mask"],
        "query_input": values["input_q"],
        "memory": [
            tf.transpose(data[f"mems_in_{i}"], [1, 0, 2]) for i in range(3)
        ],
    }
    if "target_mapping" in values:
        call["target_mapping"] = values["target_mapping"]
    output = model(**call, bi_data=True)
    expected = data["seg1/hidden"].transpose(1, 0, 2)
    actual = tf.cast(output.query_output, tf.float32)
    assert output.query_output.dtype == tf.bfloat16
    error = np.linalg.norm(actual - expected) / np.linalg.norm(expected)
    assert error < 2e-2, error
    sums = model.lm_loss(
        output.query_output, values["target"], values["target_mask"]
    )
    np.testing.assert_allclose(
        sums[0] / sums[1], data["seg1/total_loss"], rtol=2e-2
    )


def test_types():
    model = PretrainingModel(CONFIG, dtype="mixed_bfloat16")
    ids = np.arange(14).reshape(2, 7)
    with tf.GradientTape() as tape:
        output = model(
            ids,
            target_positions=[[0, 3]] * 2,
            segment_ids=ids % 2,
            training=True,
            seed=[1, 2],
        )
        sums = model.lm_loss(
            output.query_output, tf.ones([2, 2], tf.int32), tf.ones([2, 2])
        )
    assert all(v.dtype == tf.float32 for v in model.variables)
    assert output.new_memory[0].dtype == tf.bfloat16
    assert model.lm_logits(output.query_output).dtype == tf.float32
    assert all(s.dtype == tf.float32 for s in sums)
    for gradient in tape.gradient(sums[0], model.trainable_variables):
        if gradient is not None:
            assert gradient.dtype == tf.float32


def test_positions_softmax_and_logits_are_float32():
    """No bfloat16 tensor where rounding would merge what is distinct."""
    model = PretrainingModel(CONFIG, dtype="mixed_bfloat16")

    @tf.function(autograph=False)
    def run(ids):
        output = model(ids, target_positions=[[0, 3]] * 2)
        return model.lm_logits(output.query_output)

    graph = run.get_concrete_function(tf.TensorSpec([2, 7], tf.int32)).graph
    seen = set()
    for op in graph.get_operations():
        if op.type in ("Softmax", "Sin", "Cos", "Rsqrt", "Pow"):
            seen.add(op.type)
            assert op.outputs[0].dtype == tf.float32, op.name
    assert seen >= {"Softmax", "Sin", "Cos", "Rsqrt"}
    table = sinusoids.sinusoid_table(512, 896, 12)[0].numpy()
    assert len(np.unique(table, axis=0)) == 1408


def _head_matmuls(step):
    """Types of the matmuls over V = 29 in the graph of `step`."""
    graph = tf.function(step, autograph=False).get_concrete_function().graph
    return [
        op.inputs[0].dtype
        for op in graph.get_operations()
        if op.type == "MatMul"
        and any(29 in t.shape for t in [*op.inputs, *op.outputs])
    ]


@pytest.mark.parametrize("kind", ["xlnet", "bert", "albert", "modernbert"])
def test_gradients_of_logits_are_bfloat16(kind):
    sizes = dict(d_model=16, n_layer=1, n_head=2, d_inner=24)
    config = new_config(kind, 29, sizes)
    model = PretrainingModel(config, dtype="mixed_bfloat16")
    ids = tf.reshape(tf.range(20), [2, 10])
    xlnet = kind == "xlnet"
    queries = {"target_positions": [[0, 3]] * 2} if xlnet else {}

    def step():
        with tf.GradientTape() as tape:
            output = model(ids, seed=SEED, training=True, **queries)
            hidden = output.sequence_output[:, :2]
            if xlnet:
                hidden = output.query_output
            sums = model.lm_loss(
                hidden, tf.ones([2, 2], tf.int32), tf.ones([2, 2])
            )
        return tape.gradient(sums[0], model.trainable_variables)

    assert _head_matmuls(step) == [tf.float32, tf.bfloat16, tf.bfloat16]
    gradients = tf.function(step, autograph=False)()
    assert {g.dtype for g in gradients if g is not None} == {tf.float32}


def test_gradients_of_left_to_right_logits_are_bfloat16():
    config = toy(vocab_size=29, cutoffs=(), div_val=1, d_embed=10).config
    model = CausalLanguageModel(config, dtype="mixed_bfloat16")
    ids = tf.reshape(tf.range(20), [2, 10])

    def step():
        with tf.GradientTape() as tape:
            output = model(ids, training=True, seed=SEED)
            losses = model.token_losses(output.sequence_output, ids)
        return tape.gradient(losses, model.trainable_variables)

    # Of the rows, the bias and the table.
    assert _head_matmuls(step) == [tf.float32, *[tf.bfloat16] * 3]


def test_modernberts_residual_stream_is_float32():
    """It is never normalised: what is small beside it would be rounded off."""
    config = ModernBertConfig(
        vocab_size=29,
        d_model=16,
        n_layer=6,
        n_head=2,
        d_inner=24,
        local_window=4,
        dropout=0.1,
    )
    ids = np.arange(20).reshape(2, 10)
    states = {}
    for dtype in ("float32", "mixed_bfloat16"):
        model = PretrainingModel(config, dtype=dtype)
        for i, variable in enumerate(model.variables):
            scale = 1.0 if i == 0 else 0.05
            if variable.shape.rank > 1:
                values = tf.random.stateless_normal(variable.shape, [3, i])
                variable.assign(scale * values)
        output = model(ids, output_hidden_states=True, training=True, seed=SEED)
        states[dtype] = output.hidden_states
    assert output.sequence_output.dtype == tf.bfloat16
    assert {s.dtype for s in output.hidden_states} == {tf.float32}
    np.testing.assert_allclose(*(s[0] for s in states.values()), rtol=1e-6)
    wanted, found = (s[-1] - s[0] for s in states.values())
    assert np.linalg.norm(wanted) < 0.05 * np.linalg.norm(states["float32"][0])
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert error < 1e-2, error


def narrow(*shape):
    """A bfloat16 tensor of few values that rounding takes far."""
    values = np.random.default_rng(9).normal(0, 2, size=shape)
    return tf.cast(values, tf.bfloat16)


ELEMENTWISE = {
    "feed forward": lambda x, y: feed_forward._activate(
        x, y[0], None, activation="gelu", rate=0.0, texts=None
    ),
    "residual": lambda x, y: normalization._residual(
        x,
        y,
        y[0],
        tf.ones([6]),
        tf.zeros([6]),
        None,
        rate=0.0,
        epsilon=1e-12,
        dtype=x.dtype,
        texts=None,
    ),
    "biased": lambda x, y: relative._biased(x, y[0], scale=0.3),
    "segment": lambda x, y: relative._segment_term(x, y[0], y[1], scale=0.3),
    "gate": lambda x, y: modernbert._gate(
        x, None, activation="gelu_erf", rate=0.0
    ),
    "dropout": lambda x, y: dropout.masked(x, tf.constant(SEED), 0.1),
    "dropout of words": lambda x, y: dropout.words(
        x, tf.range(50), 0.1, tf.constant(SEED)
    ),
    "softmax": lambda x, y: relative.softmax_gradient(
        x, y, x[:, :2], y[:, :2], tf.constant(SEED), rate=0.1
    ),
}
SEED = (7, 8)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_dropout_keeps_the_mean(rate, dtype):
    x = tf.random.stateless_uniform([200, 1000], SEED, 1.0, 2.0)
    x = tf.cast(x, dtype)
    y = dropout.masked(x, tf.constant(SEED), rate)
    x, y = x.numpy().astype(np.float64), y.numpy().astype(np.float64)
    scale = y.sum() / x[y > 0].sum()
    np.testing.assert_allclose(scale, 1.0 / (1.0 - rate), rtol=1e-4)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_what_is_elementwise_is_rounded_once(name):
    function = ELEMENTWISE[name]
    inputs = narrow(50, 6), narrow(50, 6)
    wide = function(*[tf.cast(x, tf.float32) for x in inputs])
    found = function(*inputs)
    assert found.dtype == tf.bfloat16
    np.testing.assert_array_equal(
        tf.cast(found, tf.float32),
        tf.cast(tf.cast(wide, tf.bfloat16), tf.float32),
    )
