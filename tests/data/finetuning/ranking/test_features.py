"""Windows of long documents and lists to train on, by hand."""

import numpy as np
import pytest

from common.contract.symbols import CLS_FIRST, SymbolIds
from data.finetuning.ranking import features

IDS = SymbolIds()


@pytest.mark.parametrize(
    "length, room, stride, most, wanted",
    [
        (10, 4, 3, 9, [(0, 4), (3, 7), (6, 10)]),
        (11, 4, 3, 9, [(0, 4), (3, 7), (6, 10), (9, 11)]),
        (10, 4, 3, 2, [(0, 4), (3, 7)]),
        (10, 4, 9, 9, [(0, 4), (4, 8), (8, 10)]),
        (3, 4, 2, 9, [(0, 3)]),
        (10, 4, 0, 9, [(0, 4)]),
        (0, 4, 2, 9, [(0, 0)]),
    ],
)
def test_windows_cover_a_document(length, room, stride, most, wanted):
    assert features.windows(length, room, stride, most) == wanted


def test_a_passage_is_a_row_of_query_and_window():
    rows = features.passages([11, 12], [21, 22, 23, 24], 8, 2, 5, IDS)
    assert [row.ids for row in rows] == [
        [11, 12, 4, 21, 22, 23, 4, 3],
        [11, 12, 4, 23, 24, 4, 3],
    ]
    (row,) = features.passages([11], [21, 22], 9, 0, 5, IDS, CLS_FIRST)
    assert row.ids == [3, 11, 4, 21, 22, 4]


def test_lists_are_filled_with_lower_grades():
    grades = np.array([2, 0, 1, -1, 0, 0])
    pairs = np.array([[0, 1], [2, 4]])
    found = features.lists(pairs, grades, 4, seed=3)
    assert found[:, :2].tolist() == pairs.tolist()
    assert set(found[0, 2:]) <= {2, 4, 5} and len(set(found[0])) == 4
    assert sorted(found[1, 2:]) == [1, 5]
    again = features.lists(pairs, grades, 4, seed=3)
    assert (again == found).all()
    assert features.lists(pairs, grades, 2, seed=3).tolist() == pairs.tolist()
    # Too few lower ones: they repeat.
    wide = features.lists(pairs[1:], grades, 6, seed=3)
    assert set(wide[0, 2:]) <= {1, 5}


def test_grades_are_the_labels_of_a_list():
    rows = features.passages([11], [21, 22, 23], 6, 1, 2, IDS)
    table = features.training_table([rows, rows], [[2.0, 0.0], [1.0, 0.0]])
    batch = table.batch(np.array([1, 0]), 6)
    assert batch["input_ids"].shape == (2, 2, 6)
    assert batch["label_ids"].tolist() == [[1.0, 0.0], [2.0, 0.0]]
