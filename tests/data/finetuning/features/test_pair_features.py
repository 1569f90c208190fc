"""Segments joined and padded: worked rows, golden cases, RACE options."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract.symbols import SymbolIds
from common.vocabularies.text_settings import TextSettings
from data.finetuning.features import pair_features
from data.finetuning.race import examples as race_features
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


@pytest.mark.shared
def test_golden_race_features_both_ways(golden, spiece_model):
    value = json.loads((golden / "text" / "race.json").read_text())
    differing = 0
    for run in value["runs"]:
        tokenizer = Tokenizer(
            spiece_model, TextSettings(uncased=run["uncased"])
        )
        for accumulate, name in ((False, "unaliased"), (True, "original")):
            sequences = race_features.option_sequences(
                tokenizer.encode(run["context"]),
                [tokenizer.encode(q) for q in run["qa_list"]],
                run["max_seq_length"],
                run["max_qa_length"],
                tokenizer.symbols,
                accumulate,
            )
            rows = [pad_left(s, run["max_seq_length"]) for s in sequences]
            ids, segments, mask = (
                np.concatenate(x) for x in zip(*rows, strict=True)
            )
            wanted = run[name]
            assert ids.tolist() == wanted["input_ids"]
            assert segments.tolist() == wanted["segment_ids"]
            assert (1 - mask).tolist() == wanted["input_mask"]
        differing += run["differs"]
    assert differing == 10
    assert len(value["runs"]) == 12
