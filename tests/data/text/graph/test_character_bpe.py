"""BPE by characters in the graph beside the package `tokenizers`."""

import pytest
import tensorflow as tf

from common.errors import UserError
from data.text import opening
from tests.data.text.graph.hard_texts import differences, hard, random_parts
from tests.helpers import released

pytest.importorskip("tokenizers")
WORDS = ["the", "river", "2,000", "aaaa", "\u2581", "(x)", "U.S.", "00", "\n"]
PARTS = (*released.BPE_PARTS, "\u2581", "\u2581\u2581", "\x7f", "\u200d", "00")
PARTS = (*PARTS, "\u00bd", "\ufb01", "0", "0a", "<unk>", "<0x41>", "\n\n\n")


def _strings(count: int) -> list[str]:
    mixed = random_parts(PARTS, count, 13)
    same = [c * n for c in "0a., \u6771\u2581" for n in (2, 7, 30)]
    return [*mixed, *same, *hard(count)]


def _metaspace(scheme, split):
    def change(value):
        value["normalizer"] = {"type": "NFC"}
        value["pre_tokenizer"] = {
            "type": "Metaspace",
            "replacement": "\u2581",
            "prepend_scheme": scheme,
            "split": split,
        }

    return change


def _prepend(value):
    """Llama's old form."""
    parts = [{"type": "Prepend", "prepend": "\u2581"}, value["normalizer"]]
    value["normalizer"] = {"type": "Sequence", "normalizers": parts}
    value["pre_tokenizer"] = None
    value["added_tokens"][4] |= {"lstrip": True}


def _without_bytes(fuse):
    def change(value):
        value["model"] |= {"byte_fallback": False, "fuse_unk": fuse}

    return change


def _runs(value):
    """Pieces of one character, in an order that late merges disturb."""
    model = value["model"]
    size = len(model["vocab"]) + 1
    pairs = [("0", "0"), ("00", "00"), ("00", "0"), ("0", "00"), ("000", "a")]
    pairs = [("000", "0"), *pairs, ("\u2581", "\u2581")]
    for left, right in pairs:
        model["vocab"].setdefault(left + right, size)
        size = max(size, *model["vocab"].values()) + 1
    model["merges"] = [*map(list, pairs), *model["merges"]]
    value["added_tokens"][5] |= {"normalized": True}


KINDS = {
    "gemma": None,
    "llama": _prepend,
    "first": _metaspace("first", split=False),
    "always": _metaspace("always", split=True),
    "never": _metaspace("never", split=True),
    "fused": _without_bytes(fuse=True),
    "one by one": _without_bytes(fuse=False),
    "runs": _runs,
}


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    return released.character_bpe(tmp_path, KINDS[request.param])


@pytest.mark.long
def test_ids_and_offsets_are_the_packages(path):
    offline = opening.open_tokenizer(path)
    texts = released.random_texts(100, WORDS, seed=3)
    assert not differences(offline, [*_strings(50), *texts])


@pytest.mark.slow
def test_ten_thousand_strings(path):
    offline = opening.open_tokenizer(path)
    words = WORDS + [offline.id_to_piece(i) for i in range(offline.vocab_size)]
    texts = released.random_texts(10_000, words, seed=5)
    assert not differences(offline, [*_strings(1000), *texts])


@pytest.mark.long
def test_no_text_and_text_of_ids(tmp_path):
    offline = opening.open_tokenizer(released.character_bpe(tmp_path))
    graph = opening.graph_tokenizer(offline)
    assert graph.tokenize(tf.constant([], tf.string)).to_list() == []
    assert graph.tokenize(tf.constant(["", "<bos>"])).to_list() == [[], [2]]
    texts = ["the river <mask>, x \u6771\n\n\u4eac", " two  spaces "]
    ids = graph.tokenize(tf.constant(texts))
    assert [t.decode() for t in graph.detokenize(ids).numpy()] == [
        offline.decode(row) for row in ids.to_list()
    ]
    assert [p.decode() for p in graph.id_to_piece(ids).to_list()[0]] == [
        offline.id_to_piece(i) for i in offline.encode(texts[0])
    ]
    assert graph.vocab_size == offline.vocab_size


def _with(name, value):
    return lambda v: v["model"].update({name: value})


def _split(**options):
    return lambda v: v["pre_tokenizer"].update(options)


@pytest.mark.parametrize(
    "change, message",
    [
        (_with("ignore_merges", True), "a model without ignore_merges"),
        (_with("end_of_word_suffix", "</w>"), "without end_of_word_suffix"),
        (_split(invert=True), "pre_tokenizer ByteLevel or Metaspace"),
        (
            _split(pattern={"Regex": " +"}),
            "pre_tokenizer ByteLevel or Metaspace",
        ),
        (
            lambda v: v.update(normalizer=None),
            "pre_tokenizer ByteLevel or Metaspace",
        ),
    ],
)
def test_rules_that_no_graph_has(tmp_path, change, message):
    path = released.character_bpe(tmp_path, change)
    offline = opening.open_tokenizer(path)
    with pytest.raises(UserError, match=message) as e:
        opening.check_graph(offline)
    assert "\n" not in str(e.value)
