"""Runs are ordered, written and read again."""

from data.finetuning.ranking import runs


def test_a_run_is_ordered_by_score_then_by_id_descending(tmp_path):
    run = {"2": {"a": 1.0, "c": 0.1 + 0.2, "b": 1.0}, "1": {"x": -3.0}}
    path = str(tmp_path / "run")
    runs.write(path, run, "tag")
    rows = [
        line.split() for line in (tmp_path / "run").read_text().splitlines()
    ]
    assert [row[2] for row in rows] == ["b", "a", "c", "x"]
    assert [row[3] for row in rows] == ["1", "2", "3", "1"]
    assert runs.read(path) == run
    assert runs.top(run, 2) == {"2": {"b": 1.0, "a": 1.0}, "1": {"x": -3.0}}
