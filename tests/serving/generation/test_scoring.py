"""Texts under orders: prefixes, all orders, segments with memory."""

import itertools

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining.sampling import permutation
from serving.generation.scoring import Scorer
from tests.serving.generation.asked_models import make_model


@pytest.mark.long
def test_left_to_right_scores_are_the_sum_over_prefixes():
    model = make_model(vocab_size=30)
    ids = np.array([4, 9, 12, 7, 21, 3], np.int32)
    scorer = Scorer(model, segment_len=10, memory_len=0)
    whole = scorer.score(ids, "left_to_right", 0).log_probs
    for n in (1, 3, 5):
        prefix = scorer.score(ids[:n], "left_to_right", 0).log_probs
        np.testing.assert_allclose(prefix, whole[:n], atol=2e-5)
    given = scorer.score(ids, "left_to_right", 0, context=2).log_probs
    assert len(given) == 4
    random = scorer.score(ids, "random", 5)
    assert sorted(random.orders[0]) == list(range(6))
    assert random.total == scorer.score(ids, "random", 5).total
    # Segments with memory read the text, too, and see what came before.
    parts = Scorer(model, 3, 8).score(ids, "left_to_right", 0).log_probs
    np.testing.assert_allclose(parts[:3], whole[:3], atol=2e-5)
    np.testing.assert_allclose(parts, whole, atol=2e-5)


@pytest.mark.long
def test_the_expectation_over_all_orders_is_exact():
    """24 orders: those of the scorer, and what pretraining's draws tend to."""
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 10, 0)
    ids = np.array([4, 9, 12, 7, 21], np.int32)
    found = scorer.all_orders(ids, context=1)
    assert found.shape == (24, 4)
    named = [(o, 0) for o in ("left_to_right", "right_to_left")]
    named += [("random", seed) for seed in range(3)]
    orders = list(itertools.permutations(range(1, 5)))
    for order, seed in named:
        score = scorer.score(ids, order, seed, context=1)
        row = found[orders.index(tuple(score.orders[0]))]
        np.testing.assert_allclose(row, score.log_probs, atol=2e-5)
    totals = found.sum(1, dtype=np.float64)
    ordered = np.array([[False, True, True, True, True]] * 4000)
    ranks = permutation.draw_ranks(ordered, 0, np.random.default_rng(0))
    # With no reuse part context has rank 0, and places come after it.
    drawn = [tuple(np.argsort(row)[1:].tolist()) for row in ranks.astype(int)]
    sample = totals[[orders.index(o) for o in drawn]]
    error = totals.std() / len(sample) ** 0.5
    assert totals.std() > 1e-3
    assert abs(sample.mean() - totals.mean()) < 5 * error
    with pytest.raises(UserError, match="at most 7 scored tokens"):
        scorer.all_orders(np.arange(9, dtype=np.int32))


@pytest.mark.long
def test_only_the_first_tokens_of_a_text_are_given():
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 3, 4)
    ids = np.array([4, 9, 12, 7, 21, 3, 8], np.int32)
    found = scorer.score(ids, "left_to_right", 0, context=2)
    assert len(found.log_probs) == 5
    assert [o.tolist() for o in found.orders] == [[2], [0, 1, 2], [0]]


@pytest.mark.long
def test_memory_holds_the_inputs_of_the_last_tokens():
    """With one layer a segment depends on M tokens before it, and no other."""
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 2, 3)
    ids = np.array([4, 9, 12, 7, 21, 3], np.int32)
    plain = scorer.score(ids, "left_to_right", 0).log_probs[4:]
    for place, matters in ((0, False), (1, True), (2, True), (3, True)):
        other = ids.copy()
        other[place] = 25
        moved = scorer.score(other, "left_to_right", 0).log_probs[4:]
        assert (np.abs(moved - plain).max() > 1e-4) == matters, place


@pytest.mark.long
@pytest.mark.parametrize("memory_len", [0, 4])
def test_a_text_without_tokens_has_the_probability_one(memory_len):
    """The empty product, under its one order."""
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 3, memory_len)
    nothing = np.zeros(0, np.int32)
    found = scorer.score(nothing, "random", 1)
    assert (found.total, found.log_probs.shape, found.orders) == (0, (0,), [])
    assert scorer.all_orders(nothing).shape == (1, 0)
    # Nor has one whose tokens are all given.
    given = scorer.score(np.array([4, 9, 12, 7]), "left_to_right", 0, 4)
    assert given.total == 0 and len(given.log_probs) == 0
