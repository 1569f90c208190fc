"""NewsQA's file -> SQuAD 2.0 JSON -> features, with exact offsets."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest

import run_squad
from common.errors import UserError
from data import convert_newsqa
from data.finetuning.examples import BadRows
from data.finetuning.options import FeatureOptions, SquadDataOptions
from data.finetuning.squad import examples, windows
from tests.conftest import ROOT
from tests.flags.fresh_flags import parsed

TEXT = "NEW DELHI, India (CNN) -- The naïve café\nopened in 1998.\n\nIt closed."


def story(name, kind, *consensus):
    questions = [
        {"q": f"Question {i}?", "consensus": c, "isQuestionBad": 0.0}
        for i, c in enumerate(consensus)
    ]
    return {"storyId": name, "type": kind, "text": TEXT, "questions": questions}


def span(text):
    start = TEXT.index(text)
    return {"s": start, "e": start + len(text)}


def made_file(folder):
    value = {
        "version": "1",
        "data": [
            story(
                "a.story",
                "train",
                span("India"),
                span("café\n"),
                {"noAnswer": True},
                {"badQuestion": True},
            ),
            story("b.story", "dev", span("1998")),
        ],
    }
    path = folder / "combined.json"
    path.write_text(json.dumps(value))
    return path, value


def test_spans_keep_their_characters(tmp_path):
    path, value = made_file(tmp_path)
    squad, counts = convert_newsqa.convert(value, str(path), "train", BadRows())
    assert counts == {"answered": 2, "no answer": 1, "bad": 1, "stories": 1}
    (article,) = squad["data"]
    (paragraph,) = article["paragraphs"]
    assert paragraph["context"] == TEXT
    answers = [qa["answers"] for qa in paragraph["qas"]]
    assert [a[0]["text"] for a in answers[:2]] == ["India", "café"]
    for (answer,) in answers[:2]:
        start = answer["answer_start"]
        assert TEXT[start:].startswith(answer["text"])
    assert [qa["is_impossible"] for qa in paragraph["qas"]] == [
        False,
        False,
        True,
        True,
    ]
    whole = convert_newsqa.convert(value, str(path), "all", BadRows())[1]
    assert whole["answered"] == 3


@pytest.mark.shared
def test_the_command_and_joint_training_data(tmp_path, golden, spiece_model):
    path, _ = made_file(tmp_path)
    output = tmp_path / "news qa.json"
    command = [sys.executable, "-m", "data.convert_newsqa"]
    command += [f"--input={path}", f"--output={output}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "2 questions with an answer, 1 without, 1 bad" in done.stdout
    _, _, program, *said = shlex.split(done.stdout.split("next")[1])
    assert program == "run_squad.py"
    assert said[0] == f"--train_file=TRAIN.json,{output}"
    with parsed(run_squad.COMMAND.define, *said):
        fields = run_squad.COMMAND.read()
    assert fields["options"].do_train and fields["data"].predict_file
    ours = examples.read_squad(str(output), True, BadRows())
    squad = examples.read_squad(
        str(golden / "squad" / "train.json"), True, BadRows()
    )
    joint = examples.join_files([squad, ours, ours])
    assert len(joint.questions) == len(squad.questions) + 8
    ids = [q.question_id for q in joint.questions]
    assert len(set(ids)) == len(ids)
    for question in joint.questions:
        text = joint.paragraphs[question.paragraph]
        if question.answerable:
            assert text[question.answer_start :].startswith(question.answer)
    features = FeatureOptions(spiece_model, 64)
    options = SquadDataOptions(max_query_length=12, doc_stride=24)
    split = windows.build_split(ours, features, options, True)
    columns = split.windows.table.columns
    for window in np.flatnonzero(columns["is_impossible"] == 0):
        question = ours.questions[split.windows.question[window]]
        pieces = split.paragraphs[question.paragraph]
        first = split.windows.doc_start[window]
        start = pieces.start[first + columns["start_positions"][window]]
        end = pieces.end[first + columns["end_positions"][window]]
        assert TEXT[start:end] == question.answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], "wanted NewsQA's"),
        ({"data": [3]}, "story 0: wanted an object"),
        (
            {"data": [{"text": " "}]},
            "story 0: wanted a non-empty string 'text'",
        ),
        ({"data": [story("\ud83d", "train")]}, r"story 0: \\ud83d is half"),
        ({"data": [{"text": "x"}]}, "wanted a string 'storyId'"),
        (
            {"data": [story("a", "train", {"s": 3})]},
            "question 0: wanted 's' and",
        ),
        (
            {"data": [story("a", "train", {"s": 3, "e": 999})]},
            "3 to 999 does not",
        ),
        ({"data": [story("a", "dev", span("India"))]}, "of --split=train"),
    ],
)
def test_other_layouts_are_one_line(change, message):
    with pytest.raises(UserError, match=message):
        convert_newsqa.convert(change, "f.json", "train", BadRows())


def test_half_a_surrogate_pair_is_no_text():
    value = {"data": [story("a", "train", span("India"), span("CNN"))]}
    value["data"][0]["questions"][0]["q"] = "Where \ud83d?"
    with pytest.raises(UserError, match=r"question 0: \\ud83d is half"):
        convert_newsqa.convert(value, "f.json", "train", BadRows())
    squad, counts = convert_newsqa.convert(value, "f", "train", BadRows(True))
    assert counts["answered"] == counts["left out"] == 1
    assert json.dumps(squad, ensure_ascii=False).encode()


def test_the_file_is_not_called_like_a_packed_one(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "data.convert_newsqa", "--input=no.json"),
            f"--output={tmp_path}/train.json.gz",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "--output is written plain: give a name without .gz" in done.stderr
