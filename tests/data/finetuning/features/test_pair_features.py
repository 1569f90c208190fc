"""Segments joined and padded: worked rows and golden cases."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract.symbols import SymbolIds
from common.vocabularies.text_settings import TextSettings
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import join_segments, without_blank
from data.text.tokenizer import Tokenizer
from tests.helpers.runs.rows import pad_left

IDS = SymbolIds()


def test_worked_rows_of_the_docstring():
    joined = pair_features.join_segments([[11, 12, 13], [21, 22]], 10, IDS)
    ids, segments, mask = pad_left(joined, 10)
    np.testing.assert_array_equal(ids, [0, 0, 11, 12, 13, 4, 21, 22, 4, 3])
    np.testing.assert_array_equal(segments, [4, 4, 0, 0, 0, 0, 1, 1, 1, 2])
    np.testing.assert_array_equal(mask, [0, 0] + [1] * 8)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(0, 30))
def test_shared_lengths_equal_dropping_one_by_one(lengths, limit):
    slow = list(lengths)
    while sum(slow) > limit:
        longest = max(slow)
        slow[max(i for i, n in enumerate(slow) if n == longest)] -= 1
    assert pair_features.shared_lengths(lengths, limit) == slow


def test_third_segment_has_an_id_of_its_own():
    joined = pair_features.join_segments([[11], [12], [13], []], 20, IDS)
    assert joined.ids == [11, 4, 12, 4, 13, 4, 4, 3]
    assert joined.segments == [0, 0, 1, 1, 5, 5, 6, 2]
    with pytest.raises(ValueError, match="at least 5 for 4 segments"):
        pair_features.join_segments([[1]] * 4, 4, IDS)


@pytest.mark.shared
def test_golden_classifier_features(golden, spiece_model):
    value = json.loads((golden / "text" / "classifier.json").read_text())
    for case in value["truncate_seq_pair"]:
        a = list(range(case["len_a"]))
        b = [100 + i for i in range(case["len_b"])]
        kept = pair_features.shared_lengths(
            [len(a), len(b)], case["max_length"]
        )
        assert a[: kept[0]] == case["out_a"] and b[: kept[1]] == case["out_b"]
    tokenizers = {
        u: Tokenizer(spiece_model, TextSettings(uncased=u))
        for u in (False, True)
    }
    compared = 0
    for case in value["cases"]:
        if not case["feature"]["is_real_example"]:
            continue
        tokenizer = tokenizers[case["uncased"]]
        texts = [case["text_a"]] + ([case["text_b"]] if case["text_b"] else [])
        length = case["max_seq_length"]
        joined = pair_features.join_segments(
            [tokenizer.encode(t) for t in texts], length, tokenizer.symbols
        )
        ids, segments, mask = pad_left(joined, length)
        assert ids.tolist() == case["feature"]["input_ids"]
        assert segments.tolist() == case["feature"]["segment_ids"]
        assert (1 - mask).tolist() == case["feature"]["input_mask"]
        compared += 1
    assert compared == 41


@pytest.mark.parametrize(
    "layout, ids, segments",
    [
        ("cls_first_one_segment", [3, 11, 12, 4, 21, 4], [0] * 6),
        (
            "cls_first_sep_sep",
            [3, 11, 12, 4, 4, 21, 4],
            [0, 0, 0, 0, 0, 1, 1],
        ),
        ("cls_first_sep_sep_one_segment", [3, 11, 12, 4, 4, 21, 4], [0] * 7),
        (
            "cls_first_sep_cls",
            [3, 11, 12, 4, 3, 21, 4],
            [0, 0, 0, 0, 0, 1, 1],
        ),
    ],
)
def test_pairs_of_other_tokenizers(layout, ids, segments):
    joined = pair_features.join_segments([[11, 12], [21]], 9, IDS, layout)
    assert (joined.ids, joined.segments) == (ids, segments)
    cut = pair_features.join_segments(
        [[11, 12], [21]], len(ids) - 1, IDS, layout
    )
    assert cut.ids == [ids[0], 11, *ids[3:]]
    with pytest.raises(ValueError, match=f"at least {len(ids) - 3} for 2"):
        pair_features.join_segments([[1], [2]], len(ids) - 4, IDS, layout)


def test_a_pair_with_cls_first():
    joined = pair_features.join_segments(
        [[11, 12, 13], [21, 22]], 10, IDS, "cls_first"
    )
    assert joined.ids == [3, 11, 12, 13, 4, 21, 22, 4]
    assert joined.segments == [0, 0, 0, 0, 0, 1, 1, 1]
    made = finetune_table.from_sequences(
        [joined], **pair_features.padding("cls_first")
    )
    again = finetune_table.from_arrays(finetune_table.to_arrays(made))
    batch = again.batch(np.arange(1), 10)
    assert batch["input_ids"][0].tolist() == [*joined.ids, 0, 0]
    assert batch["segment_ids"][0].tolist() == [*joined.segments, 0, 0]
    assert batch["input_mask"][0].tolist() == [1] * 8 + [0, 0]
    short = pair_features.join_segments([[11] * 9, [21]], 7, IDS, "cls_first")
    assert short.ids == [3, 11, 11, 11, 4, 21, 4]


def test_a_blank_second_text_has_no_sep():
    """`if tokens_b` of the original: the row is that of one text."""
    ids = SymbolIds(unk=0, cls=3, sep=4, pad=5, mask=6, eod=7, eop=8)
    one = join_segments([[11, 12, 13]], 5, ids)
    blank = join_segments(without_blank([[11, 12, 13], []]), 5, ids)
    assert blank == one
    assert blank.ids == [11, 12, 13, 4, 3]
    # The first text keeps its SEP, a third one moves up.
    assert join_segments(without_blank([[], [9]]), 8, ids).ids == [4, 9, 4, 3]
    moved = join_segments(without_blank([[1], [], [2]]), 8, ids)
    assert moved == join_segments([[1], [2]], 8, ids)
