"""What a data set says itself, what a unit implies, what excludes what."""

import pytest

from common.errors import UserError
from data.language_modeling.options import LMDataOptions, StreamReadOptions


def text(**values):
    return LMDataOptions("out", **({"train_glob": "x"} | values))


def official(dataset, **values):
    return LMDataOptions("out", dataset=dataset, data_path="p", **values)


@pytest.mark.parametrize(
    "options, wanted",
    [
        (text(), ("word", "eos", False, "train")),
        (text(unit="char"), ("char", "newline", False, "train")),
        (text(unit="byte"), ("byte", "newline", False, "fixed")),
        (text(vocab_file="a.model"), ("piece", "eos", False, "train")),
        (official("ptb"), ("word", "eos", True, "all")),
        (official("ptb", unit="char"), ("char", "newline", False, "all")),
        (official("enwik8"), ("byte", "none", False, "all")),
        (official("text8", unit="byte"), ("byte", "newline", False, "fixed")),
        (official("lm1b"), ("word", "marks", False, "train")),
        (official("lm1b", line_end="mark"), ("word", "mark", False, "train")),
    ],
)
def test_what_was_not_said_is_the_data_sets_or_the_units(options, wanted):
    names = ("unit", "line_end", "lower_case", "vocab_from")
    assert tuple(getattr(options, name) for name in names) == wanted


@pytest.mark.parametrize(
    "make, values, message",
    [
        (text, {"train_glob": ""}, "--dataset=text needs --train_glob"),
        (text, {"data_path": "p"}, "and no --data_path"),
        (text, {"vocab_from": "fixed"}, "--vocab_from=fixed is for --unit=b"),
        (text, {"record_tokens": 1 << 17}, "multiple of 8 in 8..65536"),
        (text, {"seed": -1}, "--seed must be >= 0"),
        (text, {"vocab_file": "v", "min_count": 2}, "--min_count says .*v is"),
        (text, {"vocab_file": "v", "max_symbols": 2}, "--max_symbols says how"),
        (text, {"vocab_file": "v", "vocab_from": "all"}, "--vocab_from says"),
        (text, {"unit": "byte", "min_count": 2}, "--min_count is not for --u"),
        (text, {"held_out_size": 3}, "--held_out_size is for --dataset=enwik8"),
        (
            text,
            {"vocab_file": "a.model", "unknown": "error"},
            "--unknown=error is not for --unit=piece",
        ),
    ],
)
def test_what_excludes_each_other(make, values, message):
    with pytest.raises(UserError, match=message):
        make(**values)
    with pytest.raises(UserError, match="--dataset=enwik8 is cut at any byte"):
        official("enwik8", unit="char")
    with pytest.raises(UserError, match="--max_symbols is not for --unit=byte"):
        official("enwik8", max_symbols=9)
    with pytest.raises(UserError, match="says .* the vocabulary of lm1b is"):
        official("lm1b", max_symbols=9)
    with pytest.raises(UserError, match="and no --train_glob"):
        official("ptb", train_glob="x")


def test_streams_that_differ_in_paths_alone_are_equal():
    one = text(num_workers=2).identity()
    assert one == LMDataOptions("other", train_glob="y").identity()
    assert one != text(min_count=2).identity()


@pytest.mark.parametrize(
    "values, message",
    [
        ({"protocol": "anchor", "order": "shuffled"}, "reads the stream in"),
        ({"protocol": "sliding", "vary_length": True}, "segments of one len"),
        ({"protocol": "sliding", "stride": 8}, "7 tokens cannot move by 8"),
        ({"protocol": "rows"}, "`protocol`"),
        ({"read_ahead": 0}, "`read_ahead` must be >= 1"),
    ],
)
def test_protocols_that_cannot_be(values, message):
    assert StreamReadOptions(2, 7, protocol="sliding", stride=7).stride == 7
    with pytest.raises(UserError, match=message):
        StreamReadOptions(2, 7, **values)
