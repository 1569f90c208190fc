"""BERT, ALBERT and ModernBERT fill hidden places, each by itself."""

import numpy as np
import pytest
import tensorflow as tf

from serving.generation import fill
from serving.generation.masked_fill import MaskedFiller
from tests.serving.generation.asked_models import (
    HIDDEN_TEXT as TEXT,
)
from tests.serving.generation.asked_models import (
    MASKED,
    MASKED_SIZES,
    masked_lm,
    released_tokenizer,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return released_tokenizer(tmp_path_factory)


@pytest.mark.parametrize("config", MASKED, ids=lambda c: c.model_type)
def test_each_place_has_the_distribution_of_the_text_with_all_masks(
    config, tokenizer
):
    lm = masked_lm(config, tokenizer)
    hidden = fill.parse(lm, TEXT, None)
    symbols = tokenizer.symbols
    the, river = tokenizer.encode("The river")
    assert hidden.ids.tolist()[:4] == [the, symbols.mask, river, symbols.mask]
    row = [symbols.cls, *hidden.ids, symbols.sep]
    states = lm.model(np.asarray([row], np.int32)).sequence_output
    logits = lm.model.lm_logits(states)[0]
    wanted = tf.gather(tf.nn.log_softmax(logits), [2, 4])  # CLS comes first
    filler = MaskedFiller(lm)
    found = filler.log_probs(hidden.ids, hidden.positions)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    # What stands in a hidden place is not looked at, or the answer leaks.
    other = hidden.ids.copy()
    other[hidden.positions] = 9
    np.testing.assert_array_equal(
        filler.log_probs(other, hidden.positions), found
    )


def test_the_best_fillings_are_the_largest_products(tokenizer):
    lm = masked_lm(MASKED[0], tokenizer)
    hidden = fill.parse(lm, TEXT, None)
    filler = MaskedFiller(lm)
    factors = filler.log_probs(hidden.ids, hidden.positions)
    never = {*tokenizer.symbols.never_filled()}
    never |= {*range(tokenizer.vocab_size, MASKED_SIZES["vocab_size"])}
    pairs = [
        (factors[0, a] + factors[1, b], (a, b))
        for a in set(range(MASKED_SIZES["vocab_size"])) - never
        for b in set(range(MASKED_SIZES["vocab_size"])) - never
    ]
    wanted = [pair for _, pair in sorted(pairs, reverse=True)[:4]]
    found = filler.search(hidden, 4)
    assert [tuple(f.ids.tolist()) for f in found] == wanted
    given = fill.parse(lm, "The <mask> river <mask>.", ["boat", "unaffable"])
    assert len(given.positions) == 4
    factors = filler.log_probs(given.ids, given.positions)
    scored = filler.score(given)
    ids = given.ids[given.positions]
    assert scored.joint == pytest.approx(
        sum(row[i] for row, i in zip(factors, ids, strict=True)), abs=1e-5
    )
