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


def test_layouts_say_what_stands_between_two_texts():
    ids = SymbolIds(cls=7, sep=8)
    wanted = {
        "cls_last": ((8,), 3, 2, False, False),
        "cls_first": ((8,), 3, 2, True, False),
        "cls_first_one_segment": ((8,), 3, 2, True, True),
        "cls_first_sep_sep": ((8, 8), 4, 2, True, False),
        "cls_first_sep_sep_one_segment": ((8, 8), 4, 2, True, True),
        "cls_first_sep_cls": ((8, 7), 4, 2, True, False),
        "cls_first_sep_cls_one_segment": ((8, 7), 4, 2, True, True),
    }
    assert set(wanted) == set(symbols.LAYOUTS)
    for layout, values in wanted.items():
        assert values == (
            symbols.between(layout, ids),
            symbols.row_symbols(layout),
            symbols.row_symbols(layout, 1),
            symbols.is_cls_first(layout),
            symbols.has_one_segment(layout),
        )
