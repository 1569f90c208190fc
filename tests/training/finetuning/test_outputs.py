"""Quartiles of lengths by hand; what an earlier evaluation of a folder had."""

import json
import math
import types

import numpy as np
import pytest

from common.errors import UserError
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


def test_an_output_that_is_no_number_is_refused():
    good = {"logits": np.ones([3, 2]), "example_index": np.arange(3)}
    outputs.require_finite("dev", good)
    for value in (np.nan, np.inf):
        bad = good | {"logits": np.array([[1.0, 2.0], [value, 1.0]])}
        with pytest.raises(UserError, match="output on test is not .* row 1;"):
            outputs.require_finite("test", bad)


def test_evaluations_look_at_what_the_model_says():
    bad = types.SimpleNamespace(predictions={"logits": np.array([np.nan])})
    with pytest.raises(UserError, match="output on dev is not finite"):
        outputs.metric_fn(None, "dev")(bad)


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
    assert len(said("accuracy", {"accuracy": math.nan})) == 1
    for no_number in (math.nan, "0.9", None):
        path.write_text(json.dumps(earlier | {"accuracy": no_number}))
        assert said("accuracy", {"accuracy": 0.8}) == []
