"""The text of blocks: marks and ends of lines."""

import gzip
import json
import types

import pytest

from data.corpus import documents as corpus
from data.language_modeling import block_builder
from data.language_modeling.options import LMDataOptions


@pytest.mark.parametrize("unit", ["byte", "char"])
def test_a_byte_order_mark_is_no_symbol(unit):
    block = corpus.Block("x.txt", 0, 8)
    data = "\ufeffa\n\ufeffb".encode()
    options = types.SimpleNamespace(dataset="", unit=unit)
    text = block_builder.text_of([data], [block], options)
    wanted = "a\n\ufeffb\n"
    assert text == (wanted.encode() if unit == "byte" else wanted)


@pytest.mark.parametrize("unit", ["word", "char", "byte"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_cr_lf_ends_a_line_as_lf_does(unit, name):
    """As in scoring, which reads a line without its end."""
    options = LMDataOptions("out", train_glob=name, unit=unit)
    texts = []
    for end in ("\n", "\r\n"):
        text = end.join(("a b", "\r c" if name == "a.txt" else "c", ""))
        if name == "a.jsonl":
            text = json.dumps({"text": text}) + "\n"
        block = corpus.Block(name, 0, len(text))
        texts.append(block_builder.text_of([text.encode()], [block], options))
    assert texts[0] == texts[1]
    assert len(texts[0]) == (9 if name == "a.txt" else 6) - (name == "a.txt")
    # What was cut off behind CR has its line end, too.
    if name == "a.txt":
        block = corpus.Block(name, 0, 3)
        cut = block_builder.text_of([b"ab\r"], [block], options)
        assert cut in ("ab\n", b"ab\n")


@pytest.mark.parametrize("unit", ["word", "byte"])
@pytest.mark.parametrize("dataset", ["text", "enwik8"])
def test_packed_bytes_under_the_name_of_a_text_are_none(unit, dataset):
    options = types.SimpleNamespace(dataset=dataset, unit=unit)
    data = gzip.compress(b"a b\n")
    block = corpus.Block("a.txt", 0, len(data))
    wanted = "a.txt: line 1: the file is packed by its first bytes .gzip.; unp"
    with pytest.raises(corpus.CorpusError, match=wanted):
        block_builder.text_of([data], [block], options)
    if unit == "byte":  # within a file they may be anything
        block = corpus.Block("a.txt", 9, 9 + len(data))
        assert data in block_builder.text_of([data], [block], options)


@pytest.mark.parametrize("unit", ["word", "byte"])
def test_a_text_of_json_lines_is_that_of_a_file(unit):
    """Its empty lines and marks of paragraphs were gone, as of code."""
    texts = ["def f():\n    a <eop>\n\n\n b", "\nc\n\n", " \n", "", "d"]
    plain = b"def f():\n    a <eop>\n\n\n b\n" + b"\nc\n\n" + b"d\n"
    rows = "".join(json.dumps({"text": t}) + "\n" for t in texts).encode()
    found = []
    for name, data in (("a.txt", plain), ("a.jsonl", rows)):
        options = LMDataOptions("out", train_glob=name, unit=unit)
        block = corpus.Block(name, 0, len(data))
        found.append(block_builder.text_of([data], [block], options))
    assert found[0] == found[1]


def test_official_files_of_one_line_keep_every_byte():
    options = LMDataOptions("out", dataset="enwik8", unit="byte", data_path="x")
    block = corpus.Block("enwik8", 0, 6)
    assert block_builder.text_of([b"a\r\nb\r"], [block], options) == (
        b"a\r\nb\r"
    )


def test_a_byte_is_found_in_its_file():
    options = LMDataOptions("out", train_glob="x", unit="byte")
    blocks = [corpus.Block(name, 0, 9) for name in ("a.txt", "b.txt")]
    vocabulary = types.SimpleNamespace(unit="byte")
    place = block_builder._place(
        [b"a\n\n", b"b\n\x07"], blocks, options, vocabulary, "byte 7"
    )
    assert place == "b.txt: line 2: "


def test_bytes_have_the_words_of_their_text():
    """White space of Unicode divided words of text alone."""
    text = "a\u00a0b c\u3000d\x1ce\u2028\nf g\n"
    counts = block_builder.count_text(text)
    assert counts == block_builder.count_text(text.encode())
    assert (counts["words"], counts["lines"]) == (7, 2)
    # A stream of bytes may be no text.
    assert block_builder.count_text(b"a \xff\xc2\n")["words"] == 2
