"""Generation with a ring of slots: as without it, and as the original."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.causal_decoder import CausalGenerator
from serving.generation.causal_scoring import CausalScorer
from serving.generation.options import SamplingOptions
from tests.modeling.golden import txl_golden
from tests.serving.generation.asked_models import case_of


def toy(**changes):
    values = dict(
        vocab_size=23,
        d_model=10,
        n_layer=2,
        n_head=3,
        d_head=4,
        d_inner=14,
        cutoffs=(7, 15),
        div_val=2,
        mem_len=5,
        clamp_len=4,
        dropout=0.0,
        init_std=0.5,
        proj_init_std=0.5,
    )
    tf.keras.utils.set_random_seed(11)
    return CausalLanguageModel(TransformerXLConfig(**(values | changes)))


@pytest.mark.long
@pytest.mark.parametrize(
    "untie_r", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_the_ring_gives_what_recomputing_gives(untie_r):
    """Past the ring's end, from prompts shorter, as long and longer."""
    generator = CausalGenerator(toy(untie_r=untie_r), [2])
    for length in (1, 5, 8):
        prompt = np.arange(length, dtype=np.int32) + 3
        found = []
        for cached in (True, False):
            options = SamplingOptions(
                max_new_tokens=13,
                num_samples=3,
                temperature=0.9,
                top_k=9,
                top_p=0.95,
                seed=4,
                use_cache=cached,
            )
            found.append(generator.generate(prompt, options))
        np.testing.assert_array_equal(found[0].tokens, found[1].tokens)
        np.testing.assert_allclose(
            found[0].log_probs, found[1].log_probs, atol=1e-5
        )
        assert found[0].tokens.shape == (3, 13)
        assert not (found[0].tokens == 2).any()
        assert len({tuple(row) for row in found[0].tokens}) == 3


@pytest.mark.long
def test_samples_stop_after_so_many_ends():
    model = toy()
    model.softmax.biases[0].assign(8.0 * np.eye(7)[1])  # many ends
    prompt = np.asarray([3, 4], np.int32)
    options = SamplingOptions(
        max_new_tokens=60, num_samples=2, temperature=1.0, seed=1
    )
    free = CausalGenerator(model, [], end=1).generate(prompt, options)
    assert list(free.lengths) == [60, 60]
    ends = [np.flatnonzero(row == 1) for row in free.tokens]
    assert min(map(len, ends)) >= 2, "the seed gives too few ends"
    for cached in (True, False):
        stopped = CausalGenerator(model, [], end=1, stop_count=2).generate(
            prompt,
            SamplingOptions(
                max_new_tokens=60,
                num_samples=2,
                temperature=1.0,
                seed=1,
                use_cache=cached,
            ),
        )
        assert list(stopped.lengths) == [e[1] + 1 for e in ends]
        longest = stopped.tokens.shape[1]
        np.testing.assert_array_equal(stopped.tokens, free.tokens[:, :longest])


def test_a_model_without_memory_is_refused():
    with pytest.raises(UserError, match="--mem_len >= 1"):
        CausalGenerator(toy(mem_len=0), [])


def read_on(model, prompt, tokens):
    """Log-probabilities of tokens after a prompt, one segment each."""
    memory, found = model.empty_memory(1), []
    for part, token in zip([prompt, *tokens[:-1, None]], tokens, strict=True):
        output = model.read_on(part[np.newaxis], *memory)
        memory = output.new_memory, output.new_memory_length
        log_probs = model.log_probs(output.sequence_output[:, -1])
        found.append(log_probs.numpy()[0, token])
    return found


@pytest.mark.long
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"memory_start": "zeros"},
        {"same_length": True},
        pytest.param(
            {"memory_start": "zeros", "same_length": True, "untie_r": True},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_generation_begins_as_evaluation_does(cached, changes):
    """What is generated has the log-probabilities that scoring gives it."""
    model = toy(**changes)
    for length in (9, 3) if model.config.same_length else (3,):
        prompt = np.arange(length, dtype=np.int32) + 3
        result = CausalGenerator(model, []).generate(
            prompt,
            SamplingOptions(
                max_new_tokens=8, temperature=1.0, seed=3, use_cache=cached
            ),
        )
        tokens = result.tokens[0]
        own = read_on(model, prompt, tokens)
        np.testing.assert_allclose(result.log_probs[0], own, atol=2e-5)
        text = np.concatenate([prompt, tokens])
        # With M + 1 keys each nothing depends on T.
        segments = {4: 8} if model.config.same_length else {length: 1}
        for segment, count in segments.items():
            (scores,) = CausalScorer(model, segment, 1).score([text])
            np.testing.assert_allclose(
                result.log_probs[0][:count],
                scores[length - 1 :][:count],
                atol=2e-5,
            )
    # The prompt counts, not its last token alone.
    one, other = (
        CausalGenerator(model, []).read(np.asarray([*head, 4], np.int32))[0]
        for head in ([1, 5], [9, 8])
    )
    assert np.abs(one - other).max() > 1e-3


def greedy(model, prompt, count):
    """The original's way: no memory at first, then what there is, all seen."""
    output = model(prompt[np.newaxis])
    tokens, found, first = [], [], None
    for _ in range(count):
        log_probs = model.log_probs(output.sequence_output[:, -1]).numpy()[0]
        first = log_probs if first is None else first
        tokens.append(int(log_probs.argmax()))
        found.append(log_probs[tokens[-1]])
        output = model(
            np.asarray([tokens[-1:]], np.int32), memory=output.new_memory
        )
    return first, tokens, found


@pytest.mark.long
@pytest.mark.shared
def test_greedy_tokens_and_scores_of_the_original(golden):
    """From no memory; with `same_length` ours is another start on purpose:
    the original's short memory hides keys that there are."""
    found = txl_golden.cases(golden)
    arrays = txl_golden.load(golden, "steps")
    for name in sorted({key.split("/")[0] for key in arrays}):
        case = case_of(found["cases"], name)
        config = txl_golden.config(
            found["config"], case["settings"], memory_start="hidden"
        )
        weights = txl_golden.case_arrays(golden, case["variables"])
        model = txl_golden.build(config, weights)
        wanted = arrays[f"{name}/greedy_tokens"]
        prompt = arrays[f"{name}/prompt"].astype(np.int32)
        first, tokens, own = greedy(model, prompt, len(wanted))
        start = arrays[f"{name}/greedy_first_log_probs"]
        np.testing.assert_allclose(first, start, atol=2e-5)
        np.testing.assert_array_equal(tokens, wanted)
        np.testing.assert_allclose(
            own, arrays[f"{name}/greedy_log_probs"], atol=5e-5
        )
        for cached in (True, False):
            generator = CausalGenerator(model, [])
            first, _ = generator.read(prompt)
            if config.same_length:
                assert np.abs(first[0] - start).max() > 0.1
                continue
            np.testing.assert_allclose(first[0], start, atol=2e-5)
            result = generator.generate(
                prompt,
                SamplingOptions(
                    max_new_tokens=len(wanted),
                    temperature=0.0,
                    use_cache=cached,
                ),
            )
            np.testing.assert_array_equal(result.tokens[0], wanted)
            np.testing.assert_allclose(
                result.log_probs[0],
                arrays[f"{name}/greedy_log_probs"],
                atol=5e-5,
            )
