"""Which symbols are never targets, never fill a gap, never stand in a text."""

from common.contract import symbols
from common.contract.symbols import SymbolIds


def test_ids_by_what_they_may_become():
    ids = SymbolIds(
        unk=10, bos=-1, eos=12, cls=13, sep=14, pad=15, mask=16, eod=17, eop=-1
    )
    assert ids.functional() == (14, 13)
    # A file that lacks a symbol has -1, which is no id.
    assert ids.never_filled() == {10, 12, 13, 14, 15, 16, 17}
    assert ids.never_written() == {10, 12, 13, 14, 15, 16}


def test_the_defaults_are_the_trained_layout():
    ids = SymbolIds()
    for piece, number in symbols.TRAINED_LAYOUT.items():
        name = {"<s>": "bos", "</s>": "eos"}.get(piece, piece.strip("<>"))
        assert getattr(ids, name) == number, piece
    assert sorted(symbols.TRAINED_LAYOUT.values()) == list(range(9))
