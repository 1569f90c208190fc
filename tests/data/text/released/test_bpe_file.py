"""Byte-level BPE files: bytes of pieces, orders of merges."""

import types

from data.text.graph.added_tokens import AddedToken
from data.text.released import bpe_file
from data.text.released.bpe_file import BpeFile


def test_a_piece_stands_for_its_bytes():
    assert bpe_file._surface("the") == b"the"
    assert bpe_file._surface("\u0120r") == b" r"
    assert bpe_file._surface("\u0100\u00ff") == b"\x00\xff"
    assert bpe_file._surface("a b") is None
    assert bpe_file._surface("\u6771") is None
    alphabet = bpe_file._alphabet()
    assert sorted(alphabet.values()) == list(range(256))


def test_merges_that_wait_for_a_later_piece_are_done_one_at_a_time():
    # ab, abc: what is merged was made before.
    assert not bpe_file._needs_order([(0, 1, 5), (5, 2, 6)])
    # abc is merged with a while bc, of which it is made, comes later.
    assert bpe_file._needs_order([(6, 0, 7), (0, 5, 6), (1, 2, 5)])


def test_words_that_the_package_leaves_whole():
    cut = {"ab": [4], "abc": [4, 2], "\u0120a": [9], "\u6771": [11]}
    package = types.SimpleNamespace(
        model=types.SimpleNamespace(
            tokenize=lambda piece: [
                types.SimpleNamespace(id=i) for i in cut[piece]
            ]
        )
    )
    vocab = {"ab": 4, "abc": 5, "\u0120a": 9, "\u6771": 11}
    found = bpe_file._words(package, {"vocab": vocab})
    assert found == {b"ab": 4, b" a": 9}
    whole = {"vocab": vocab, "ignore_merges": True}
    assert bpe_file._words(package, whole)[b"abc"] == 5


def test_special_tokens_stand_for_no_text():
    tokens = [
        AddedToken("<s>", 2, False, False, True),
        AddedToken("caf\u00e9", 3, False, False, False),
    ]
    pieces = ["a", "\u0120b", "<s>", "x"]
    merges = bpe_file.Merges([], False)
    file = BpeFile(pieces, [], merges, {}, tokens, False, False)
    assert bpe_file.texts_of(file) == [b"a", b" b", b"", "caf\u00e9".encode()]
