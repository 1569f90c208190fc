"""Hidden places: chains in any order, searches, what tokens say of them."""

import itertools

import numpy as np
import pytest

from common.errors import UserError
from data.text.tokenizer import Tokenizer
from serving.generation import fill
from serving.generation.language_model import LanguageModel
from tests.serving.generation.asked_models import Pieces, make_model


@pytest.fixture(scope="module")
def lm(spiece_model):
    return LanguageModel(make_model(), Tokenizer(spiece_model))


@pytest.mark.shared
def test_every_factor_is_a_distribution_and_orders_are_chains(lm):
    hidden = fill.parse(lm, "The <mask> was <mask>.", ["cat", "old"])
    filler = fill.Filler(lm)
    count = len(hidden.positions)
    left = np.arange(count)
    for order in (left, left[::-1], np.roll(left, 2)):
        factors = filler.factors(hidden.ids[None], hidden.positions, order)[0]
        np.testing.assert_allclose(np.exp(factors).sum(-1), 1.0, atol=1e-5)
        # A chain: factor k is that of a text in which only what comes before
        # k in the order is known; later targets cannot matter.
        chain = filler.score(hidden, order)
        for step, place in enumerate(order):
            known = hidden.ids.copy()
            known[hidden.positions[order[step:]]] = 9
            alone = filler.factors(known[None], hidden.positions, order)[0]
            token = hidden.ids[hidden.positions[place]]
            np.testing.assert_allclose(
                alone[place, token], chain.log_probs[place], atol=2e-5
            )
        assert chain.joint == pytest.approx(float(chain.log_probs.sum()))


@pytest.mark.slow
@pytest.mark.shared
def test_search_finds_the_best_pair_that_a_full_beam_sees(lm):
    hidden = fill.parse(lm, "<mask> sat on <mask>", None)
    filler = fill.Filler(lm)
    found = filler.search(hidden, np.array([1, 0]), 6)
    joints = [f.joint for f in found]
    assert joints == sorted(joints, reverse=True) and len(found) == 6
    banned = set(lm.tokenizer.symbols.never_filled())
    for filling in found:
        assert not banned & set(filling.ids.tolist())
        ids = hidden.ids.copy()
        ids[hidden.positions] = filling.ids
        again = filler.score(hidden._replace(ids=ids), np.array([1, 0]))
        assert again.joint == pytest.approx(filling.joint, abs=2e-5)


@pytest.mark.long
def test_a_full_beam_finds_the_best_of_all_pairs():
    model = make_model(vocab_size=12, n_layer=1)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    hidden = fill.Hidden(np.array([10, 0, 11, 0], np.int32), np.array([1, 3]))
    order = np.array([1, 0])
    joints = {}
    for pair in itertools.product((9, 10, 11), repeat=2):
        ids = hidden.ids.copy()
        ids[hidden.positions] = pair
        score = filler.score(hidden._replace(ids=ids), order)
        joints[pair] = score.joint
    found = filler.search(hidden, order, 9)
    best = sorted(joints, key=joints.get, reverse=True)
    assert [tuple(f.ids.tolist()) for f in found] == best
    for filling in found:
        wanted = joints[tuple(filling.ids.tolist())]
        assert filling.joint == pytest.approx(wanted, abs=2e-5)


def test_places_are_filled_in_the_given_order():
    model = make_model(vocab_size=15, n_layer=1)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    ids = np.array([[9, 10, 11, 12, 13]], np.int32)
    positions, order = np.array([0, 2, 3]), np.array([2, 0, 1])
    plain = filler.factors(ids, positions, order)[0]
    # First position 3, then 0, then 2: whose factor does a token change?
    for token, sees in ((3, [True, True, False]), (0, [False, True, False])):
        other = ids.copy()
        other[0, token] = 14
        moved = filler.factors(other, positions, order)[0]
        change = np.nanmax(np.abs(np.exp(moved) - np.exp(plain)), -1) > 1e-6
        assert change.tolist() == sees


@pytest.mark.shared
def test_a_filling_is_scored_among_the_pieces_of_the_whole_text(lm):
    encode = lm.tokenizer.encode
    hidden = fill.parse(lm, "Oliver asked the <mask>.", ["master"])
    assert hidden.ids.tolist() == encode("Oliver asked the master.")
    found = lm.tokenizer.decode(hidden.ids[hidden.positions])
    assert found == "master"
    hidden = fill.parse(lm, "pre<mask>ed <mask>", ["view", "1998"])
    assert hidden.ids.tolist() == encode("preview" + "ed 1998")
    # Not known: the mask's id among the pieces of both sides.
    hidden = fill.parse(lm, "pre<mask>ed <mask>.", None)
    mask = lm.tokenizer.symbols.mask
    left, end = encode("pre"), lm.tokenizer.piece_to_id("ed")
    full_stop = lm.tokenizer.piece_to_id(".")
    assert hidden.ids.tolist() == [*left, mask, end, mask, full_stop]
    assert hidden.positions.tolist() == [len(left), len(left) + 2]


@pytest.mark.shared
def test_fill_errors(lm):
    with pytest.raises(UserError, match="holds no <mask>"):
        fill.parse(lm, "nothing", None)
    with pytest.raises(UserError, match="needs 1 texts"):
        fill.parse(lm, "a <mask>", ["a", "b"])
    for symbol in ("<eop>", "\u2603"):
        with pytest.raises(UserError, match="text 2 holds .*never fills"):
            fill.parse(lm, "a <mask> <mask>", ["a", f"b {symbol}"])
    for empty in ("", " "):
        with pytest.raises(UserError, match="text 1 has no pieces"):
            fill.parse(lm, "a <mask> b", [empty])
    with pytest.raises(UserError, match="permutation of 0..1"):
        fill.parse_order("0,0", 2, 0)
    assert sorted(fill.parse_order("random", 5, 3)) == list(range(5))


def test_places_without_an_order_know_nothing_of_each_other():
    model = make_model(vocab_size=15, n_layer=1)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    hidden = fill.Hidden(
        np.array([9, 10, 11, 12, 13], np.int32), np.array([1, 3])
    )
    alone = filler.score(hidden, None)
    # Each is the first factor of the order that begins with it.
    for place, order in ((0, [0, 1]), (1, [1, 0])):
        chain = filler.score(hidden, np.array(order))
        assert chain.log_probs[place] == pytest.approx(
            alone.log_probs[place], abs=2e-5
        )
        assert abs(chain.joint - alone.joint) > 1e-4


@pytest.mark.long
def test_attribution_is_what_is_lost_without_a_token():
    model = make_model(vocab_size=15, n_layer=2)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    ids = np.array([9, 10, 11, 12, 13], np.int32)
    hidden = fill.Hidden(ids, np.array([1, 3]))
    order = np.array([1, 0])
    found = filler.attribution(hidden, order)
    assert found[[1, 3]].tolist() == [0, 0] and found[[0, 2, 4]].all()
    # Nobody sees it: what is left does not depend on which token it is.
    rest = filler.score(hidden, order).joint - found
    other = hidden._replace(ids=np.array([9, 10, 14, 12, 13], np.int32))
    moved = filler.score(other, order).joint - filler.attribution(other, order)
    assert moved[2] == pytest.approx(rest[2], abs=2e-5)
    assert abs(moved[0] - rest[0]) > 1e-4
