"""Added tokens in code points: the longest, from the left, with their blanks."""

import types

import pytest
import tensorflow as tf

from common.errors import UserError
from data.text.graph import added_tokens
from data.text.graph.added_tokens import AddedToken, TokenFinder, Trie
from data.text.graph.graph_text import CODE_POINTS, decode

TOKENS = [
    AddedToken("<a>", 7, False, False, True),
    AddedToken("<a><b>", 9, False, False, True),
    AddedToken("<b>", 8, True, False, False),
]


def find(*texts):
    """Rows of characters and {number of a token}, and the spans of tokens."""
    flat = decode(tf.constant([t.encode() for t in texts]))
    white = tf.equal(flat.points, ord(" "))
    found = TokenFinder(TOKENS, CODE_POINTS)(flat, white)
    rows, spans = ["" for _ in texts], []
    for point, row, start, end in zip(
        *(x.numpy() for x in found[:4]), strict=True
    ):
        if point >= CODE_POINTS:
            rows[row] += f"{{{point - CODE_POINTS}}}"
            spans.append((int(start), int(end)))
        else:
            rows[row] += chr(point)
    return rows, spans


def test_the_longest_from_the_left_is_taken():
    rows, spans = find("x<a>y<a><b>", "<a<b>>", "", "<a><a><b>")
    assert rows == ["x{0}y{1}", "<a{2}>", "", "{0}{1}"]
    assert spans[:2] == [(1, 4), (5, 11)]


def test_blanks_before_a_token_may_belong_to_it():
    rows, spans = find("x  <b> y", " <a>", "<a> <b>")
    assert rows == ["x{2} y", " {0}", "{0}{2}"]
    assert spans[0] == (1, 6)


def test_no_token_goes_over_the_end_of_a_row():
    rows, _ = find("<a", ">", "<b", ">")
    assert rows == ["<a", ">", "<b", ">"]


def test_a_trie_leads_from_state_to_state():
    trie = Trie(["ab", "abc", "b"])
    state = tf.constant([0])
    for letter, ends in (("a", -1), ("b", 0), ("c", 1)):
        state = trie.next(state, tf.constant([ord(letter)]))
        assert tf.gather(trie.ends, state).numpy().tolist() == [ends]
    assert trie.next(state, tf.constant([ord("d")])).numpy().tolist() == [-1]


def test_rules_that_a_graph_does_not_have_are_named():
    package = types.SimpleNamespace(token_to_id={"<s>": 3}.get, normalizer=None)
    row = {"content": "<s>", "special": True, "lstrip": True}
    (token,) = added_tokens.read({"added_tokens": [row]}, package, "x.json")
    assert token == AddedToken("<s>", 3, True, False, True)
    for rule in ("single_word", "rstrip"):
        rules = {"added_tokens": [row | {rule: True}]}
        with pytest.raises(UserError, match=f"x.json: .*'<s>' is {rule}"):
            added_tokens.read(rules, package, "x.json")
    rules = {"added_tokens": [row | {"content": "a" * 1001}] * 1000}
    with pytest.raises(
        UserError, match="1000000 characters together, found 10"
    ):
        added_tokens.read(rules, package, "x.json")


def test_raw_and_normalised_tokens_are_numbered_one_after_the_other():
    late = AddedToken("c", 4, False, True, False)
    raw, normalised, ids = added_tokens.finders([late, *TOKENS])
    assert raw is not None and normalised is not None
    assert ids.numpy().tolist() == [7, 9, 8, 4]
    assert added_tokens.finders(TOKENS)[1] is None
