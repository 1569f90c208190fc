"""Answers of several models are joined by text."""

import math

import pytest

from data.finetuning.squad import ensembles as squad_ensembles
from data.finetuning.squad.task import SquadAnswers


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
    found = squad_ensembles.combine([a, b], [1.0, 3.0], 2)
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
    assert squad_ensembles.combine([a], [5.0], 2) is a
    assert a.nbest["q"][0]["probability"] == 0.5
