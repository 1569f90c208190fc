"""The search over hyper-parameters of a study."""

import json
import statistics

import pytest

from common.errors import UserError
from studies.kinds.registry import load
from studies.runner import study
from studies.runner.seed_table import Column
from studies.runner.study_file import RowOptions
from studies.runner.study_search import Searched, label, place

ACCURACY = Column("accuracy", digits=1)
LOSS = Column("loss", higher=False, digits=1)
TWO = "tasks.two = {"
SEARCH = "search = { learning_rate = [1e-3, 2e-4], batch = [8, 16, 32] },"


def searching(path, search=SEARCH):
    """The file of options with a search in its second task."""
    text = path.read_text()
    assert TWO in text
    path.write_text(text.replace(TWO, f"{TWO} {search}"))
    return path


def test_the_grid_in_its_order(options):
    given = load(str(searching(options)), {})
    assert given.tasks["one"].points() == [{}]
    assert [label(p) for p in given.tasks["two"].points()] == [
        f"learning_rate={rate},batch={batch}"
        for rate in ("0.001", "0.0002")
        for batch in (8, 16, 32)
    ]
    row = RowOptions("a first")
    assert place(row, 0, "one", "", 2) == "a-0/one-2"
    assert place(row, 3, "two", "batch=8", 1) == "a-3/two,batch=8-1"
    # Without a pretraining there is no job to be below.
    row = RowOptions("a first", start="weights")
    assert place(row, 0, "two", "batch=8", 1) == "two,batch=8/a-1"


@pytest.mark.parametrize(
    "found, column, best",
    [
        ({"x": [1.0, 5.0], "y": [2.0, 3.0]}, ACCURACY, "x"),
        ({"x": [1.0, 5.0], "y": [2.0, 3.0]}, LOSS, "y"),
        ({"x": [2.0], "y": [2.0]}, ACCURACY, "x"),  # equal: the first
        ({"x": [9.0], "y": [2.0, 3.0]}, ACCURACY, "y"),  # more seeds count
        ({"x": [9.0, 0.0, 0.0], "y": [2.0, 1.0, 1.0]}, ACCURACY, "y"),
        ({"x": [], "y": [1.0]}, LOSS, "y"),
        ({"x": [], "y": []}, ACCURACY, "x"),
    ],
)
def test_the_best_point(found, column, best):
    searched = Searched("4 XLNet", "sst-2", column, found)
    assert searched.best == best
    line = searched.line()
    assert line.startswith(f"4 XLNet, sst-2 ({column.name}): ")
    assert line.count(f"**{best} ") == 1 == line.count("**") // 2
    for name, values in found.items():
        shown = "not run"
        if values:
            shown = f"{statistics.median(values):.1f} ({len(values)})"
        assert f"{name} {shown}" in line


@pytest.mark.slow
def test_the_table_has_each_rows_best_point(options, tmp_path):
    folder = tmp_path / "out"
    given = load(str(searching(options)), {})
    lines = []
    runner = study.Study(str(folder), given)
    runner._say = lines.append
    rows = runner.run()
    searches = runner.searches()
    runner.write(rows)
    # 3 rows, 2 seeds: a pretraining, 3 tunings of one task, 6 x 3 of the other.
    assert any(x.startswith("132 jobs, 0 done") for x in lines)

    table = (folder / "table.md").read_text()
    results = json.loads((folder / "results.json").read_text())
    chosen = []
    for row in ("a first", "b second"):
        by_hand = {}
        for home in folder.glob(f"{row[0]}-[01]/two,*"):
            point, _, own = home.name.removeprefix("two,").rpartition("-")
            value = json.loads((home / "run" / "eval.json").read_text())
            seed = f"{home.parent.name[-1]}.{own}"
            by_hand.setdefault(point, {})[seed] = 100 * value["accuracy"]
            (words,) = json.loads((home / "attempt.json").read_text())[
                "commands"
            ]
            assert {f"--{flag}" for flag in point.split(",")} < set(words)
        assert len(by_hand) == 6
        medians = {k: statistics.median(v.values()) for k, v in by_hand.items()}
        best = max(medians, key=medians.get)
        chosen.append(best)
        assert results[row]["of"]["two"] == pytest.approx(by_hand[best])
        searched = results[row]["searched"]
        assert set(searched) == {"two"} and searched["two"]["best"] == best
        assert searched["two"]["found"].keys() == by_hand.keys()
        assert f"**{best} {medians[best]:.1f} (6)**" in table
        assert results[row]["of"]["one"].keys() == by_hand[best].keys()
    assert len(set(chosen)) == 2  # each row has its own
    assert (
        "c wrong, two (two): **learning_rate=0.001,batch=8 not run**" in table
    )
    assert results["c wrong"]["errors"]["two"].startswith("c-0: no such")
    # The same from what lies there, and the grid may grow.
    again = study.Study(str(folder), given, only_read=True)
    assert again.run() == rows and again.searches() == searches
    text = options.read_text().replace("[8, 16, 32]", "[8, 16, 32, 64]")
    options.write_text(text)
    more = study.Study(str(folder), load(str(options), {}))
    more._say = lines.append
    more.run()
    # Each point has 6 seeds in two rows; the third is tried again.
    assert any(x.startswith("168 jobs, 88 done") for x in lines)


@pytest.mark.parametrize(
    "search, message",
    [
        ("search = { batch = 8 },", "`batch` must be a list of different"),
        ("search = { batch = [] },", "`batch` must be a list of different"),
        ("search = { batch = [8, 8] },", "`batch` must be a list of different"),
        ('search = { kind = ["a/b"] },', 'texts without "/"'),
        ("search = { kind = [[1]] },", 'texts without "/"'),
        ("search = { seed = [1, 2] },", "`seed` is set by the runner"),
        ('search = { by = "one", batch = [1, 2] },', r"\(two\), found 'one'"),
    ],
)
def test_wrong_searches_are_one_line(options, search, message):
    with pytest.raises(UserError, match=message) as e:
        load(str(searching(options, search)), {})
    assert "tasks.two.search" in str(e.value) and "\n" not in str(e.value)


def test_a_row_has_no_value_of_a_flag_that_is_searched(options):
    """It was taken at every point: all of them were one run."""
    text = searching(options, "search = { batch = [8, 9] },").read_text()
    row = 'name = "b second"'
    assert row in text
    options.write_text(text.replace(row, row + ", tasks.two.batch = 3"))
    with pytest.raises(UserError, match="task 'two': `batch` is set by the ru"):
        load(str(options), {})


def test_a_search_needs_a_column_that_may_be_compared(options):
    text = searching(options).read_text()
    options.write_text(text.replace("digits = 1 }", "compare = false }"))
    with pytest.raises(UserError, match="there is none"):
        load(str(options), {})
