"""Quartiles of lengths by hand; every task's parts add up to the whole."""

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
