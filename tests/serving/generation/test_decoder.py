"""Generation with cached keys and values equals generation without."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, XLNetConfig
from serving.generation.decoder import Generator
from serving.generation.options import SamplingOptions
from serving.generation.scoring import Scorer


def make_generator(**overrides) -> Generator:
    tf.keras.utils.set_random_seed(5)
    config = XLNetConfig(
        **{
            "vocab_size": 37,
            "d_model": 20,
            "n_layer": 3,
            "n_head": 2,
            "d_head": 6,
            "d_inner": 28,
            "init_std": 0.35,
        }
        | overrides
    )
    return Generator(
        PretrainingModel(config.with_memory(None)),
        np.array([0, 3, 4]),
        eod=7,
        pad=5,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "overrides,temperature",
    [
        ({}, 0.8),
        pytest.param({}, 0.0, marks=pytest.mark.slow),
        pytest.param(
            {"untie_r": False, "clamp_len": 4}, 0.0, marks=pytest.mark.slow
        ),
        pytest.param(
            {"attn_type": "uni", "same_length": True},
            0.8,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["bi", "bi-greedy", "tied-clamped", "uni"],
)
def test_cache_changes_nothing(overrides, temperature):
    generator = make_generator(**overrides)
    prompt = np.array([11, 12, 30, 9, 14], np.int32)
    options = {
        "max_new_tokens": 7,
        "num_samples": 3,
        "temperature": temperature,
        **({"top_k": 20, "seed": 3} if temperature else {}),
    }
    fast = generator.generate(prompt, SamplingOptions(**options))
    slow = generator.generate(
        prompt, SamplingOptions(**options, use_cache=False)
    )
    np.testing.assert_array_equal(fast.tokens, slow.tokens)
    np.testing.assert_array_equal(fast.lengths, slow.lengths)
    np.testing.assert_allclose(fast.log_probs, slow.log_probs, atol=2e-5)
    if temperature:
        assert len({tuple(row) for row in fast.tokens}) > 1


@pytest.mark.long
def test_text_ends_at_eod_and_banned_ids_never_come():
    generator = make_generator()
    options = SamplingOptions(
        max_new_tokens=40, num_samples=8, temperature=3.0, top_p=1.0, seed=1
    )
    result = generator.generate(np.array([11], np.int32), options)
    for row, length in zip(result.tokens, result.lengths, strict=True):
        assert not set(row[:length]) & {0, 3, 4}
        assert 7 not in row[: length - 1]
        assert set(row[length:]) <= {5}
    assert (result.lengths < 40).any(), "some text ends"


def test_every_step_draws_anew_and_log_probs_are_the_models():
    generator = make_generator()
    query = tf.random.stateless_normal([6, 1, 20], [1, 2])
    options = SamplingOptions(temperature=2.0, top_k=5, seed=4)
    alive = tf.zeros([6], tf.bool)

    def pick(step, done=alive):
        return generator._pick(query, tf.constant(step), done, options)

    rows = [tuple(pick(step)[0].numpy()) for step in range(6)]
    assert len(set(rows)) == 6
    token, log_prob = pick(0)
    assert tuple(token.numpy()) == rows[0]
    # Of all tokens but the banned ones, whatever may be drawn.
    logits = generator.model.lm_logits(query[:, 0]).numpy()
    logits[:, [0, 3, 4]] = -np.inf
    wanted = tf.nn.log_softmax(logits).numpy()[np.arange(6), token]
    np.testing.assert_allclose(log_prob, wanted, atol=1e-5)
    token, log_prob = pick(0, tf.constant([True] * 3 + [False] * 3))
    assert token.numpy()[:3].tolist() == [5] * 3
    assert log_prob.numpy()[:3].tolist() == [0.0] * 3
    assert tuple(token.numpy()[3:]) == rows[0][3:]


@pytest.mark.long
def test_what_comes_out_has_the_probability_of_scoring_it():
    """The prompt is context, new tokens are targets from left to right."""
    generator = make_generator(n_layer=2, untie_r=False)
    generator.banned = np.zeros([0], np.int32)
    prompt = np.array([11, 12, 30, 9], np.int32)
    options = SamplingOptions(
        max_new_tokens=5, num_samples=2, temperature=1.0, seed=2
    )
    result = generator.generate(prompt, options)
    scorer = Scorer(generator.model, segment_len=20, memory_len=0)
    assert len({tuple(row) for row in result.tokens}) == 2
    for tokens, log_probs in zip(result.tokens, result.log_probs, strict=True):
        text = np.concatenate([prompt, tokens])
        score = scorer.score(text, "left_to_right", 0, context=len(prompt))
        np.testing.assert_allclose(log_probs, score.log_probs, atol=2e-5)
