"""Unigram in the graph beside the package `tokenizers`."""

import base64

import pytest
import tensorflow as tf

from common.errors import UserError
from data.text import opening
from tests.data.text.graph.hard_texts import differences, hard, random_parts
from tests.helpers import released

pytest.importorskip("tokenizers")
WORDS = [
    "the",
    "river",
    "2,000",
    "19,",
    "aaaa",
    "``",
    "''",
    "(x)",
    "U.S.",
    "00",
]
PARTS = (*released.BPE_PARTS, "``", "''", "`", "'", "\u2581", "\x7f", "\u200d")
PARTS = (*PARTS, "\u00bd", "\ufb01", "\u200b", "\ufeff", "0", ".", "<unk>")


def _strings(count: int) -> list[str]:
    mixed = random_parts(PARTS, count, 11)
    same = [c * n for c in "0a.,\u6771" for n in (2, 7, 30)]
    return [*mixed, *same, *hard(count), "00 000 0000", "\x7fab \x7f", "``a''"]


def _metaspace(**options):
    rule = {"type": "Metaspace", "replacement": "\u2581", "split": True}
    return rule | {"prepend_scheme": "always"} | options


def _scheme(scheme, split=True, white=False):
    def change(value):
        rule = _metaspace(prepend_scheme=scheme, split=split)
        if white:
            parts = [{"type": "WhitespaceSplit"}, rule]
            rule = {"type": "Sequence", "pretokenizers": parts}
        value["pre_tokenizer"] = rule
        pattern = {"Regex": " {2,}"}
        collapse = {"type": "Replace", "pattern": pattern, "content": " "}
        value["normalizer"] = {
            "type": "Sequence",
            "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, collapse],
        }
        value["added_tokens"][0] |= {"normalized": True, "content": "<x>"}

    return change


def _bytes(value):
    model = value["model"]
    model["vocab"] += [[f"<0x{b:02X}>", -9.0] for b in range(256)]
    model["byte_fallback"] = True
    # Sums of such scores are rounded.
    model["vocab"] = [[piece, score / 3] for piece, score in model["vocab"]]
    value["normalizer"] = {"type": "NFC"}


def _table(rule) -> dict:
    """SentencePiece's table of a rule as a normalizer."""
    table = base64.b64encode(released.charsmap(rule))
    return {"type": "Precompiled", "precompiled_charsmap": table.decode()}


def _xlm_roberta(value):
    """That of multilingual MiniLM, E5 and such BERTs."""
    blanks = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    parts = [_table("nmt_nfkc"), blanks]
    value["normalizer"] = {"type": "Sequence", "normalizers": parts}
    parts = [{"type": "WhitespaceSplit"}, _metaspace()]
    value["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}


def _stripped(value):
    """As newer conversions of SentencePiece's files have it."""
    blanks = {"type": "Replace", "pattern": {"Regex": " {2,}"}}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    parts = [_table("nmt_nfkc_cf"), strip, blanks | {"content": "\u2581"}]
    value["normalizer"] = {"type": "Sequence", "normalizers": parts}
    value["pre_tokenizer"] = _metaspace()


KINDS = {
    "xlm-roberta": _xlm_roberta,
    "stripped": _stripped,
    "albert": None,
    "cased": {"do_lower_case": False},
    "accents": {"keep_accents": True},
    "no prefix": {"add_prefix_space": False},
    "always": _scheme("always"),
    "first": _scheme("first", split=False),
    "first word": _scheme("first", white=True),
    "never": _scheme("never"),
    "bytes": _bytes,
}


@pytest.fixture(params=KINDS)
def path(request, tmp_path, spiece_model):
    how = KINDS[request.param]
    if callable(how):
        return released.unigram_json(tmp_path, spiece_model, how)
    symbols = released.USER_DEFINED if how else ()
    return released.albert(tmp_path, symbols, **(how or {}))


@pytest.mark.long
def test_ids_and_offsets_are_the_packages(path):
    offline = opening.open_tokenizer(path)
    texts = released.random_texts(100, WORDS, seed=3)
    assert not differences(offline, [*_strings(50), *texts])


@pytest.mark.slow
def test_ten_thousand_strings(path):
    offline = opening.open_tokenizer(path)
    words = WORDS + [offline.decode([i]) for i in range(offline.vocab_size)]
    texts = released.random_texts(10_000, words, seed=5)
    assert not differences(offline, [*_strings(1000), *texts])


@pytest.mark.long
def test_of_equal_ways_the_first_is_taken(tmp_path, spiece_model):
    """Scores of which 32-bit sums would break the tie the other way."""

    def change(value):
        value["model"]["vocab"] += [["q", -5.3], ["qq", -9.1], ["qqq", -13.7]]

    path = released.unigram_json(tmp_path, spiece_model, change)
    offline = opening.open_tokenizer(path)
    texts = ["q" * n for n in range(60)] + ["q" * 700]
    assert not differences(offline, texts)


@pytest.mark.long
def test_no_text_and_text_of_ids(tmp_path):
    offline = opening.open_tokenizer(released.albert(tmp_path))
    graph = opening.graph_tokenizer(offline)
    assert graph.tokenize(tf.constant([], tf.string)).to_list() == []
    assert graph.tokenize(tf.constant(["", " "])).to_list() == [[], []]
    ids = graph.tokenize(tf.constant(["the [MASK] river"]))
    assert graph.detokenize(ids).numpy()[0].decode() == "the river"
    assert [p.decode() for p in graph.id_to_piece(ids).to_list()[0]] == [
        offline.id_to_piece(i) for i in offline.encode("the [MASK] river")
    ]
    assert graph.vocab_size == offline.vocab_size


@pytest.mark.parametrize(
    "change, message",
    [
        ({"normalizer": {"type": "NFKD"}}, "wanted a normalizer of Replace"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer Metaspace"),
        (
            {
                "normalizer": {
                    "type": "Replace",
                    "pattern": {"Regex": "a+"},
                    "content": "b",
                }
            },
            "one text by one character",
        ),
        ({"pre_tokenizer": _metaspace(replacement="_")}, "the mark \u2581"),
    ],
)
def test_rules_that_no_graph_has(tmp_path, spiece_model, change, message):
    path = released.unigram_json(
        tmp_path, spiece_model, lambda v: v.update(change)
    )
    offline = opening.open_tokenizer(path)
    with pytest.raises(UserError, match=message) as e:
        opening.check_graph(offline)
    assert "\n" not in str(e.value)
