"""Passages, questions and four options; what is wrong is named by its file."""

import json

import numpy as np
import pytest

from common.contract.symbols import SymbolIds
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.examples import BadRows
from data.finetuning.race import examples as race_features
from data.finetuning.race.examples import question_with_option, read_race
from data.text.tokenizer import Tokenizer
from tests.helpers.runs.rows import pad_left

GOOD = {
    "article": "A mill burned.",
    "questions": ["What _ ?", "Who?"],
    "options": [["a", "b", "c", "d"], ["e", "f", "g", "h"]],
    "answers": ["B", "D"],
}


def write(folder, level, name, value):
    path = folder / "dev" / level / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_a_prediction_looks_at_no_answer(tmp_path):
    folder = tmp_path / "test" / "high"
    folder.mkdir(parents=True)
    value = {
        "article": "Text.",
        "questions": ["Why?"],
        "options": [["a", "b", "c", "d"]],
        "answers": [""],
    }
    (folder / "1.txt").write_text(json.dumps(value))
    with pytest.raises(UserError, match="wanted A, B, C or D, found ''"):
        read_race(str(tmp_path), "test", BadRows())
    (found,) = read_race(str(tmp_path), "test", BadRows(), labelled=False)
    assert found.label == -1


def test_middle_comes_first_and_files_by_name(tmp_path):
    write(tmp_path, "high", "1.txt", GOOD)
    write(tmp_path, "middle", "2.txt", GOOD)
    write(tmp_path, "middle", "1.txt", {**GOOD, "answers": None})
    found = read_race(str(tmp_path), "dev", BadRows())
    assert [e.guid for e in found] == [
        *("middle/1/0", "middle/1/1", "middle/2/0", "middle/2/1"),
        *("high/1/0", "high/1/1"),
    ]
    assert [e.label for e in found] == [-1, -1, 1, 3, 1, 3]
    assert found[0].options[1] == "What b ?"
    assert found[1].options == ("Who? e", "Who? f", "Who? g", "Who? h")
    high = read_race(str(tmp_path), "dev", BadRows(), ("high",))
    assert {e.level for e in high} == {"high"}


def test_a_blank_takes_the_option():
    assert question_with_option("_ and _", "x") == "x and x"
    assert question_with_option("Who?", "He") == "Who? He"
    assert question_with_option("By ____, not __.", "x") == "By x, not x."


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"article": " "}, "wanted a non-empty string 'article'"),
        ({"questions": "Who?"}, "wanted a list of strings 'questions'"),
        ({"options": [list("abcd")]}, "wanted 2 lists in 'options'"),
        ({"answers": ["A"]}, "wanted 2 'answers'"),
        (
            {"article": "A mill. \ud83d"},
            r"\\ud83d is half of a surrogate pair and no",
        ),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, change, problem):
    write(tmp_path, "high", "1.txt", GOOD | change)
    with pytest.raises(UserError, match=f"1.txt:1: {problem}"):
        read_race(str(tmp_path), "dev", BadRows())
    write(tmp_path, "high", "2.txt", GOOD)
    bad = BadRows(skip=True)
    assert len(read_race(str(tmp_path), "dev", bad)) == 2
    assert bad.count == 1


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"questions": ["What _ ?", 3]}, "wanted a string, found 3"),
        ({"options": [list("abcd"), list("ab")]}, "wanted 4 strings"),
        ({"options": [list("abcd"), [*"abc", None]]}, "wanted 4 strings"),
        ({"questions": ["What _ ?", "\udc00"]}, r"\\udc00 is half"),
        ({"answers": ["B", "AB"]}, "wanted A, B, C or D, found 'AB'"),
        ({"answers": ["B", ""]}, "wanted A, B, C or D, found ''"),
    ],
)
def test_a_bad_question_leaves_the_others_of_its_passage(
    tmp_path, change, problem
):
    write(tmp_path, "high", "1.txt", GOOD | change)
    with pytest.raises(UserError, match=f"1.txt:1: question 1: {problem}"):
        read_race(str(tmp_path), "dev", BadRows())
    bad = BadRows(skip=True)
    (left,) = read_race(str(tmp_path), "dev", bad)
    assert (left.guid, left.label, bad.count) == ("high/1/0", 1, 1)


def test_empty_questions_and_options_are_said(tmp_path):
    options = [["a", "", "c", " "], ["e", "f", "g", "h"]]
    change = {"questions": ["What _ ?", ""], "options": options}
    write(tmp_path, "high", "1.txt", GOOD | change)
    bad = BadRows()
    assert len(read_race(str(tmp_path), "dev", bad)) == 2
    assert [line.split("1.txt:1: ")[1] for line in bad.noted] == [
        "question 0: empty: option B, option D",
        "question 1: empty: question",
    ]


def test_folders_that_are_none(tmp_path):
    with pytest.raises(UserError, match="no folder dev/middle or dev/high"):
        read_race(str(tmp_path), "dev", BadRows())
    write(tmp_path, "high", "1.txt", "{")
    with pytest.raises(UserError, match="dev` holds no usable question"):
        read_race(str(tmp_path), "dev", BadRows(skip=True))


IDS = SymbolIds()


def test_race_options_with_cls_first():
    rows = race_features.option_sequences(
        [11, 12], [[21], [22]], 8, 5, IDS, layout="cls_first"
    )
    assert [r.ids for r in rows] == [
        [3, 11, 12, 4, 21, 4],
        [3, 11, 12, 4, 22, 4],
    ]


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
