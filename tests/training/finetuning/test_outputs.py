"""Quartiles of lengths by hand; what an earlier evaluation of a folder had."""

import json

import numpy as np

from training.finetuning import outputs


def test_quartiles_by_hand():
    lengths = np.array([7, 1, 5, 3, 9, 2, 8, 8])
    asked = []

    def evaluate(part):
        asked.append(part.tolist())
        return {"sum": int(lengths[part].sum())}

    rows = outputs.by_quartile(lengths, evaluate)
    # 1 2 | 3 5 | 7 | 8 8 9: equal ones stay together.
    assert asked == [[1, 5], [2, 3], [0, 6, 7], [4]]
    assert rows[2] == {
        **{"quartile": 3, "shortest": 7, "longest": 8, "examples": 3},
        "sum": 23.0,
    }
    assert outputs.quartile_lines(rows)[3] == (
        "  9..9 characters, 1 examples: sum 9"
    )
    # One length is one quartile.
    (row,) = outputs.by_quartile(np.full(5, 6), evaluate)
    assert row["examples"] == 5 and row["longest"] == 6


def test_a_better_number_of_other_weights_is_said(tmp_path):
    """An ensemble has no loss: its folder may hold one of a single model."""
    path = tmp_path / "eval_dev.json"
    earlier = {"loss": 0.25, "accuracy": 0.9, "checkpoint": "model.ckpt-2"}
    path.write_text(json.dumps(earlier))

    def said(metric, found, name=""):
        return outputs._better_before(str(path), metric, found, name)

    assert said("loss", {"accuracy": 0.8}) == []
    assert said("accuracy", {"accuracy": 0.9}) == []
    assert said("accuracy", {"accuracy": 0.8}, "model.ckpt-2") == []
    (line,) = said("accuracy", {"accuracy": 0.8}, "model.ckpt-4")
    assert "had accuracy 0.9 of model.ckpt-2, and has now 0.8 of" in line
    (line,) = said("accuracy", {"accuracy": 0.8})
    assert line.endswith("has now 0.8 of an ensemble")
    (line,) = said("loss", {"loss": 0.5}, "model.ckpt-4")
    assert "had loss 0.25" in line
