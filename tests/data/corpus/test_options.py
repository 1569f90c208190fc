"""Options of the commands that make corpora."""

import pytest

from common.errors import UserError
from data import demo_corpus
from data.corpus.options import (
    ConvertOptions,
    DemoCorpusOptions,
    FilterOptions,
    SentencePieceOptions,
)


def test_a_filter_writes_a_plain_file_or_nothing():
    FilterOptions("a", output_file="b")
    FilterOptions("a", dry_run=True)
    for values, message in (
        ({}, "give either --output_file or --dry_run"),
        ({"output_file": "b", "dry_run": True}, "give either --output_file"),
        ({"output_file": "b.gz"}, "give a name without .gz"),
        ({"output_file": "b", "max_boilerplate": 0.0}, "--max_boilerplate mus"),
    ):
        with pytest.raises(UserError, match=message):
            FilterOptions("a", **values)


def test_a_text_is_not_called_like_another_form():
    ConvertOptions("a", "b.txt")
    for name, message in (
        ("b.txt.gz", "--output_file is written plain: give a name without .gz"),
        ("b.bz2", "give a name without .bz2"),
        ("b.jsonl", "b.jsonl is called like JSON, but text is written"),
        ("b.json", "called like JSON"),
        ("b.JSON", "called like JSON"),
    ):
        with pytest.raises(UserError, match=message):
            ConvertOptions("a", name)


def test_what_a_filtered_corpus_depends_on():
    one = FilterOptions("a", output_file="b", num_workers=3)
    assert one.identity() == FilterOptions("c", dry_run=True).identity()
    other = FilterOptions("a", output_file="b", examples=4)
    assert other.identity() != one.identity()


def test_unused_pieces_leave_room_for_symbols_and_characters():
    def options(size, unused):
        return SentencePieceOptions(
            "a", "b", vocab_size=size, num_unused=unused
        )

    assert options(36, 20).num_unused == 20
    with pytest.raises(UserError, match="at least 16 .* above --num_unused=20"):
        options(35, 20)


def test_settings_of_the_small_corpus_stay():
    small = DemoCorpusOptions("x")
    assert small.max_megabytes == 8.0
    identity = demo_corpus.identity(small)
    assert set(identity) == {"versions", "max_megabytes", "examples_per_class"}
    with pytest.raises(UserError, match="--sources without --size=large"):
        DemoCorpusOptions("x", sources=("manual",))
    with pytest.raises(UserError, match="--num_workers without --size=large"):
        DemoCorpusOptions("x", num_workers=2)


def test_a_vocabulary_has_a_name():
    """`out/.model` was written, which `ls` does not list."""
    SentencePieceOptions("a", "out/spiece")
    with pytest.raises(UserError, match="such as out/spiece$"):
        SentencePieceOptions("a", "out/")
