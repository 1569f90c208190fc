"""Scores of a left-to-right model, in segments and in company."""

import numpy as np
import pytest
import tensorflow as tf

from serving.generation.causal_scoring import CausalScorer
from tests.modeling.golden import txl_golden
from tests.serving.generation.asked_models import asked, case_of


@pytest.mark.long
@pytest.mark.parametrize("mem_len", [0, 12])
def test_segments_and_company_change_nothing(mem_len):
    """Texts of 0 to 9 tokens, 2 at a time, against each alone in one call."""
    model = asked(mem_len=mem_len).model
    rng = np.random.default_rng(4)
    texts = [rng.integers(0, 4, n) for n in (5, 1, 9, 0, 2)]
    # Without memory a segment knows nothing of the one before.
    length = 4 if mem_len else 8
    found = CausalScorer(model, length, batch_size=2).score(texts)
    assert [len(scores) for scores in found] == [4, 0, 8, 0, 1]
    for text, scores in zip(texts, found, strict=True):
        if len(text) < 2:
            continue
        ids = tf.constant(text[np.newaxis], tf.int32)
        states = model(ids[:, :-1]).sequence_output
        wanted = -model.token_losses(states, ids[:, 1:])[0].numpy()
        np.testing.assert_allclose(scores, wanted, atol=1e-5)
        assert scores.dtype == np.float32 and (scores < 0).all()


def test_memory_reaches_the_next_segment_and_no_other_text():
    """Two runs of one scorer give the same: memory begins empty."""
    model = asked(mem_len=3).model
    scorer = CausalScorer(model, 2, batch_size=1)
    text = np.asarray([0, 1, 2, 2, 1])
    other = np.asarray([0, 2, 2, 2, 1])
    first, moved, again = scorer.score([text, other, text])
    np.testing.assert_array_equal(first, again)
    # The token at 1 is read in the first segment; the second one sees it.
    assert np.abs(first[2:] - moved[2:]).min() > 1e-5


@pytest.mark.long
@pytest.mark.shared
def test_scores_of_the_original_and_of_any_segments(golden):
    """Token by token from empty memory, alone and in company."""
    found = txl_golden.cases(golden)
    arrays = txl_golden.load(golden, "steps")
    case = case_of(found["cases"], "plain")
    weights = txl_golden.case_arrays(golden, case["variables"])
    text = arrays["plain/text"]
    others = [text[:3], text[5:6], text[:15]]
    for start in ("hidden", "zeros"):
        config = txl_golden.config(
            found["config"], case["settings"], memory_start=start
        )
        model = txl_golden.build(config, weights)
        name = "empty" if start == "hidden" else "zeros"
        for length in (1, 4):
            scorer = CausalScorer(model, length, batch_size=3)
            scores = scorer.score([others[0], text, *others[1:]])
            np.testing.assert_allclose(
                -scores[1],
                arrays[f"plain/score_{name}_by_{length}"],
                atol=5e-5,
            )
            assert [len(s) for s in scores] == [2, len(text) - 1, 0, 14]
            alone = CausalScorer(model, length, batch_size=1)
            np.testing.assert_allclose(
                alone.score([others[2]])[0], scores[3], atol=1e-5
            )
