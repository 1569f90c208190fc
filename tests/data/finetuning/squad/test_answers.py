"""Answers are judged question by question."""

import json
import math

import pytest

from data.finetuning.examples import BadRows
from data.finetuning.squad import answers as squad_answers
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad.task import SquadAnswers
from tests.data.finetuning.squad.published_metrics import (
    published,
    write_dataset,
)


def test_unusable_questions_of_version_1_count_as_wrong(tmp_path):
    dataset = write_dataset(tmp_path / "dev.json", 10, version_2=False)
    qas = [p["qas"][0] for p in dataset["data"][0]["paragraphs"]]
    qas[3]["question"] = "  "
    (tmp_path / "dev.json").write_text(json.dumps(dataset))
    file = squad_examples.read_squad(
        str(tmp_path / "dev.json"), False, BadRows(skip=True)
    )
    right = {q.question_id: q.answer for q in file.questions}
    answers = squad_answers.SquadAnswers(
        right,
        {q: [{"text": t}] for q, t in right.items()},
        dict.fromkeys(right, 0.0),
    )
    got = squad_answers.evaluate_answers(file, answers, None)
    assert got == published(dataset, right, False)
    assert got == {"exact": 90.0, "f1": 90.0, "total": 10}


def answers(nbest, odds):
    """Question q with (text, start, end) entries."""
    entries = [
        {
            "text": text,
            "probability": 0.5,
            "start_log_prob": start,
            "end_log_prob": end,
        }
        for text, start, end in nbest
    ]
    return SquadAnswers({"q": entries[0]["text"]}, {"q": entries}, {"q": odds})


def test_answers_are_joined_by_text():
    a = answers([("x", math.log(0.5), math.log(0.8)), ("y", -2.0, -1.0)], 1.0)
    b = answers([("z", math.log(0.6), math.log(0.6)), ("x", -1.0, -0.5)], -3.0)
    found = squad_answers.combine([a, b], [1.0, 3.0], 2)
    share = {
        "x": 0.25 * 0.4 + 0.75 * math.exp(-1.5),
        "y": 0.25 * math.exp(-3.0),
        "z": 0.75 * 0.36,
    }
    best = sorted(share, key=share.get, reverse=True)[:2]
    assert [e["text"] for e in found.nbest["q"]] == best == ["z", "x"]
    for entry in found.nbest["q"]:
        score = entry["start_log_prob"] + entry["end_log_prob"]
        assert math.exp(score) == pytest.approx(share[entry["text"]])
        total = share["z"] + share["x"]
        wanted = share[entry["text"]] / total
        assert entry["probability"] == pytest.approx(wanted)
    assert found.predictions == {"q": "z"}
    assert found.null_odds["q"] == pytest.approx(0.25 * 1.0 + 0.75 * -3.0)
    # Alone a member is itself; its own dictionaries stay as they are.
    assert squad_answers.combine([a], [5.0], 2) is a
    assert a.nbest["q"][0]["probability"] == 0.5
