"""Killed builders, and that another byte or a leftover is seen."""

import pytest

from tools.soak import kill_commands


@pytest.mark.slow
def test_a_killed_builder_leaves_no_trace(tmp_path):
    outcome = kill_commands.soak(str(tmp_path), "builder", kills=3, seed=2)
    assert outcome.kills >= 3 and outcome.starts > outcome.kills
    assert outcome.differing == [] and outcome.left == []


def test_another_byte_and_leftovers_are_seen(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tsv").write_text("1")
        (tmp_path / name / "run.json").write_text(name)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    assert kill_commands.differences(a, b) == []
    assert kill_commands.leftovers(b) == []
    (tmp_path / "b" / "x.tsv").write_text("2")
    (tmp_path / "b" / "y").write_text("")
    assert kill_commands.differences(a, b) == ["x.tsv", "y"]
    (tmp_path / "b" / ".1.tmp-7").mkdir()
    (tmp_path / "b.partial").write_text("")
    assert len(kill_commands.leftovers(b)) == 2
