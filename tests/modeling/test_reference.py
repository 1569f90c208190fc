"""Random configs and calls against the papers' formulas."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modeling import XLNetConfig, XLNetModel, reference
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from modeling.ops import fused as fusion


@st.composite
def cases(draw):
    """A config and a call: odd sizes, every option on and off."""
    config = XLNetConfig(
        vocab_size=13,
        d_model=2 * draw(st.integers(1, 4)),
        n_layer=draw(st.integers(1, 3)),
        n_head=draw(st.integers(1, 3)),
        d_head=draw(st.integers(1, 5)),
        d_inner=draw(st.integers(1, 9)),
        ff_activation=draw(st.sampled_from(["gelu", "relu", "gelu_erf"])),
        untie_r=draw(st.booleans()),
        attn_type=draw(st.sampled_from(["bi", "uni"])),
        same_length=draw(st.booleans()),
        clamp_len=draw(st.sampled_from([-1, 1, 3])),
        mem_len=draw(st.sampled_from([None, 0, 1, 4, 20])),
        reuse_len=draw(st.sampled_from([None, 0, 1, 3, 20])),
        dropout=0.0,
        dropatt=0.0,
        init_std=0.5,
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    b, t = 2 * draw(st.integers(1, 2)), draw(st.integers(1, 11))
    m, p = draw(st.integers(0, 7)), draw(st.integers(1, 4))
    batch = {
        "input_ids": rng.integers(0, 13, (b, t)),
        "bi_data": draw(st.booleans()),
    }
    if draw(st.booleans()):
        batch["segment_ids"] = rng.integers(0, 4, (b, t))
    if draw(st.booleans()):
        batch["input_mask"] = (rng.random((b, t)) < 0.7).astype(np.int32)
    order = draw(st.sampled_from(["none", "mask", "ranks"]))
    if order == "mask":
        batch["perm_mask"] = (rng.random((b, t, t)) < 0.5).astype(np.float32)
    if order == "ranks":
        batch["ranks"] = rng.integers(0, t, (b, t)).astype(np.int32)
        batch["is_target"] = (rng.random((b, t)) < 0.4).astype(np.int32)
    if m:
        batch["memory"] = [
            rng.normal(size=(b, m, config.d_model)).astype(np.float32)
            for _ in range(config.n_layer)
        ]
        if draw(st.booleans()):
            batch["memory_length"] = rng.integers(0, m + 1, b)
    if draw(st.booleans()):
        batch["target_positions"] = rng.integers(0, t, (b, p)).astype(np.int32)
    shifts = ["gather", "radix"]
    if config.clamp_len <= 0:
        shifts.append("factored")
    shift = draw(st.sampled_from(shifts))
    return config, batch, shift, rng


def plain(config, model, batch):
    """The same call of the reference in float64."""
    weights = {
        k: tf.constant(v.numpy(), tf.float64)
        for k, v in named_variables(model).items()
    }
    batch = {
        k: v if k == "bi_data" else tf.nest.map_structure(tf.constant, v)
        for k, v in batch.items()
    }
    if "memory" in batch:
        batch["memory"] = [tf.cast(m, tf.float64) for m in batch["memory"]]
    return reference.xlnet(config, weights, **batch)


def _check(case, run):
    config, batch, shift, rng = case
    model = XLNetModel(config, query_shift=shift)
    for variable in model.variables:
        variable.assign(rng.normal(size=variable.shape) * 0.5)
    expected = plain(config, model, batch)
    output = run(model, batch)
    for value, wanted in zip(
        (output.sequence_output, output.query_output), expected, strict=False
    ):
        assert (value is None) == (wanted is None)
        if wanted is not None:
            np.testing.assert_allclose(value, wanted, atol=2e-4, rtol=2e-4)
    if not config.mem_len:
        assert output.new_memory is None
        return
    for value, wanted in zip(output.new_memory, expected.memory, strict=True):
        np.testing.assert_allclose(value, wanted, atol=2e-4, rtol=2e-4)


@pytest.mark.long
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(cases())
def test_any_call_eagerly(case):
    _check(case, lambda model, batch: model(**batch))


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(cases())
def test_many_calls_eagerly(case):
    _check(case, lambda model, batch: model(**batch))


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(case=cases())
def test_calls_in_graphs(jit_compile, case):
    """As one compiled program, and with every fused kernel compiled."""

    def run(model, batch):
        tensors = {
            k: v if k in ("bi_data", "memory") else tf.convert_to_tensor(v)
            for k, v in batch.items()
        }
        minimum = fusion.MIN_ELEMENTS
        fusion.MIN_ELEMENTS = 1
        try:
            call = tf.function(
                lambda: model(**tensors),
                jit_compile=jit_compile,
                autograph=False,
            )
            return call()
        finally:
            fusion.MIN_ELEMENTS = minimum

    _check(case, run)


@pytest.mark.slow
@pytest.mark.parametrize("attn_type", ["bi", "uni"])
def test_unknown_batch_and_length(attn_type):
    """As an export has it: one graph for every size."""
    config = XLNetConfig(
        vocab_size=13,
        d_model=6,
        n_layer=2,
        n_head=2,
        d_head=3,
        d_inner=5,
        attn_type=attn_type,
        mem_len=4,
        init_std=0.5,
    )
    model = XLNetModel(config)
    ids, real = (tf.TensorSpec([None, None], tf.int32) for _ in range(2))
    memory = [tf.TensorSpec([None, None, 6], tf.float32)] * 2
    where = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[ids, real, memory, where], autograph=False)
    def run(ids, real, memory, where):
        return model(
            ids,
            segment_ids=ids % 2,
            input_mask=real,
            memory=memory,
            memory_length=tf.reduce_sum(real, 1) * 0 + 1,
            target_positions=where,
        )

    rng = np.random.default_rng(0)
    for b, t, m, p in ((1, 5, 1, 2), (3, 2, 4, 1), (2, 9, 6, 4)):
        batch = {
            "input_ids": rng.integers(0, 13, (b, t)).astype(np.int32),
            "input_mask": (rng.random((b, t)) < 0.8).astype(np.int32),
            "memory": [
                rng.normal(size=(b, m, 6)).astype(np.float32) for _ in range(2)
            ],
            "target_positions": rng.integers(0, t, (b, p)).astype(np.int32),
        }
        output = run(*batch.values())
        batch["segment_ids"] = batch["input_ids"] % 2
        batch["memory_length"] = np.ones(b, int)
        expected = plain(config, model, batch)
        for value, wanted in zip(output[:2], expected, strict=False):
            np.testing.assert_allclose(value, wanted, atol=2e-4)


@pytest.mark.long
@pytest.mark.parametrize("untie_r, same_length", [(False, True), (True, False)])
def test_a_language_model_over_three_segments(untie_r, same_length):
    """Hidden states, memory and probabilities, each segment from the last."""
    config = TransformerXLConfig(
        vocab_size=23,
        d_model=6,
        n_layer=2,
        n_head=3,
        d_head=2,
        d_inner=9,
        untie_r=untie_r,
        same_length=same_length,
        clamp_len=4,
        mem_len=5,
        dropout=0.0,
        init_std=0.5,
    )
    tf.keras.utils.set_random_seed(11)
    model = CausalLanguageModel(config)
    weights = {
        k: tf.constant(v.numpy(), tf.float64)
        for k, v in named_variables(model).items()
    }
    rng = np.random.default_rng(4)
    memory, lengths = model.empty_memory(2)
    kept = [tf.cast(m, tf.float64) for m in memory]
    for t in (3, 7, 4):
        ids = tf.constant(rng.integers(0, 23, (2, t)), tf.int32)
        output = model.read_on(ids, memory, lengths)
        expected, logits = reference.transformer_xl(
            config, weights, ids, kept, lengths
        )
        wanted = tf.nn.log_softmax(logits)
        found = model.log_probs(output.sequence_output)
        np.testing.assert_allclose(found, wanted, atol=2e-5)
        np.testing.assert_allclose(
            output.sequence_output, expected.content, atol=2e-5
        )
        for new, old in zip(output.new_memory, expected.memory, strict=True):
            np.testing.assert_allclose(new, old, atol=2e-5)
        memory, lengths = output.new_memory, output.new_memory_length
        kept = expected.memory


def test_an_order_is_a_mask():
    """Context 0 and 3 see each other; 2 comes before 1 in the order."""
    ranks = tf.constant([[0, 2, 1, 0]])
    hidden = reference.order_mask(ranks, tf.constant([[0, 1, 1, 0]]))
    assert hidden.numpy().astype(int).tolist() == [
        [[0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]]
    ]
