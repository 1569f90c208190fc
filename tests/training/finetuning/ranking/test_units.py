"""Words of pieces, stop words, by hand."""

import numpy as np
import pytest

from common.errors import UserError
from data.text.opening import open_tokenizer
from tests.helpers import released
from training.finetuning.ranking.units import Units

PIECES = ["<unk>", "▁The", "▁ri", "ver", ",", "▁(", "to", "wn", "▁", "s"]


class Toy:
    """A tokenizer's table of pieces."""

    vocab_size = len(PIECES)
    word_starts = np.array([p[0] in "▁<" or p == "," for p in PIECES])

    def id_to_piece(self, index):
        return PIECES[index]


# The river, (town river s
IDS = np.array([1, 2, 3, 4, 5, 6, 7, 2, 3, 8, 9])


@pytest.fixture
def states():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, len(IDS), 3)).astype(np.float32)


def test_pieces_are_units_of_their_own(states):
    units = Units(Toy())
    assert units.names(IDS) == IDS.tolist()
    assert units.pool(IDS, states) is states


def test_released_vocabularies_have_pieces_and_no_words(states, tmp_path):
    pytest.importorskip("tokenizers")
    tokenizer = open_tokenizer(released.wordpiece_folder(tmp_path))
    assert Units(tokenizer).pool(IDS, states) is states
    for more in (("word",), ("piece", ["the"])):
        with pytest.raises(UserError, match="--unit=word .*vocab.txt: leave"):
            Units(tokenizer, *more)


def test_a_word_has_the_mean_of_its_pieces(states):
    units = Units(Toy(), "word")
    assert units.names(IDS) == ["the", "river", ",", "(", "town", "river", "s"]
    found = units.pool(IDS, states)
    spans = [(0, 1), (1, 3), (3, 4), (4, 5), (5, 7), (7, 9), (9, 11)]
    wanted = np.stack([states[:, a:b].mean(1) for a, b in spans], 1)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    empty = np.zeros(0, np.int64)
    assert units.names(empty) == []
    assert units.pool(empty, states[:, :0]).shape == (2, 0, 3)


def test_stop_words_lose_all_their_pieces(states):
    units = Units(Toy(), "piece", ("river", "the"))
    kept = [3, 4, 5, 6, 9, 10]
    assert units.names(IDS) == IDS[kept].tolist()
    np.testing.assert_array_equal(units.pool(IDS, states), states[:, kept])
    words = Units(Toy(), "word", ("river", "the"))
    assert words.names(IDS) == [",", "(", "town", "s"]
    assert words.pool(IDS, states).shape == (2, 4, 3)
    # A query of stop words alone keeps them.
    assert words.names(IDS[:3]) == ["the", "river"]
    keys = {str(u.key) for u in (units, words, Units(Toy()))}
    assert len(keys) == 3
