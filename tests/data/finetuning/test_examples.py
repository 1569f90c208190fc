"""Bad rows, labels, rows of predictions, and some of the examples."""

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning import examples as task_examples
from data.finetuning.examples import SHOWN_PROBLEMS, BadRows


def test_the_first_bad_row_ends_or_all_are_counted():
    with pytest.raises(UserError, match="f:3: empty; correct the row or give"):
        BadRows().report("f:3", "empty")
    bad = BadRows(skip=True)
    for number in range(SHOWN_PROBLEMS + 2):
        bad.report(f"f:{number}", "empty")
    assert bad.count == SHOWN_PROBLEMS + 2
    title, *lines = bad.summary().split("\n  ")
    assert title == f"skipped {bad.count} bad rows:"
    assert lines[0] == "f:0: empty" and lines[-1] == "... and 2 more"
    assert len(lines) == SHOWN_PROBLEMS + 1


def test_what_is_said_of_a_file_is_said_once_and_first():
    bad = BadRows()
    assert bad.summary() == ""
    bad.note("f:2", "no text")
    for _ in range(2):
        bad.say("columns: a, b")
    assert bad.summary().split("\n") == [
        "columns: a, b",
        "1 rows are used as they are:",
        "  f:2: no text",
    ]


@pytest.mark.parametrize(
    "text, kind, label, problem",
    [
        (" b ", "classification", "b", None),
        ("", "classification", None, "the label is empty"),
        ("c", "classification", None, "unknown label 'c', wanted one of a, b"),
        ("2.5", "regression", 2.5, None),
        ("nan", "regression", None, "wanted a finite number"),
        ("x", "regression", None, "wanted a number as label, found 'x'"),
        ("b | a", "multi_label", ("b", "a"), None),
        ("", "multi_label", (), None),
        ("a|a", "multi_label", None, "a label is given twice in 'a|a'"),
        ("a|c", "multi_label", None, "unknown label 'c'"),
    ],
)
def test_labels_of_every_kind(text, kind, label, problem):
    found = task_examples.parse_label(text, kind, {"a": 0, "b": 1})
    assert found[0] == label
    assert found[1] is None if problem is None else problem in found[1]


def test_rows_without_an_id_have_their_number_in_the_file():
    bad = BadRows(skip=True)
    bad.report("before", "of another file")
    rows = [
        ("f:1", ["x"], "a", "", None),
        ("f:2", ["y"], "c", "", None),
        ("f:3", ["z"], None, "", None),
        ("f:4", ["w"], "b", "id-7", None),
        ("f:5", ["v"], "b", "", "a problem"),
    ]
    found = task_examples.collect(rows, bad, "classification", {"a": 0, "b": 1})
    assert [(e.guid, e.label) for e in found] == [
        ("0", "a"),
        ("2", None),
        ("id-7", "b"),
    ]
    assert bad.count == 3


def test_shares_name_the_likeliest():
    rows = task_examples.share_rows(
        ["x", "y"], ("a", "b", "c"), np.array([[0.2, 0.5, 0.3], [0.6, 0, 0.4]])
    )
    assert rows[0] == ["guid", "prediction", "p(a)", "p(b)", "p(c)"]
    assert rows[1] == ["x", "b", "0.200000", "0.500000", "0.300000"]
    assert rows[2][:2] == ["y", "a"]


def test_fewer_examples_are_a_part_of_more_in_file_order():
    every = list(range(40))
    few, more = (task_examples.some_of(every, n, 3) for n in (6, 17))
    assert len(few) == 6 and set(few) < set(more)
    assert few == sorted(few) and more == sorted(more)
    assert task_examples.some_of(every, 0, 3) == every
    assert task_examples.some_of(every, 6, 4) != few
    with pytest.raises(UserError, match="--train_examples=41: .* have 40;"):
        task_examples.some_of(every, 41, 3)
