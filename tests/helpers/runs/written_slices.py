"""Slices of an evaluation by length, as they are written."""

import json

import numpy as np
import pytest


def check_written(folder, results, name):
    """The quartiles of `dev` are its examples; `name` is a mean over them."""
    path = folder / "eval_dev_by_length.json"
    found = json.loads(path.read_text())
    assert found["unit"] == "characters"
    rows = found["quartiles"]
    assert 1 < len(rows) <= 4
    for before, after in zip(rows, rows[1:], strict=False):
        assert before["longest"] < after["shortest"]
        assert before["quartile"] < after["quartile"]
    weights = [row["examples"] for row in rows]
    mean = np.average([row[name] for row in rows], weights=weights)
    assert mean == pytest.approx(results[name])
    return rows
