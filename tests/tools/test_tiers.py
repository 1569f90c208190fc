"""What changed last comes first, and every slow file has a turn."""

import os
import subprocess

from tests.conftest import ROOT
from tools import tiers


def test_slow_files_are_those_with_the_mark():
    """By name: the order of the slow tier loads no test."""
    for part in (files := tiers.slow_files()):
        assert (ROOT / part).is_file()
    assert len(files) > 100 and "tests/tools/test_faults.py" in files
    assert "tests/scripts/pages/words/test_words.py" not in files


def test_changes_lead_to_their_slow_tests():
    slow = [
        "tests/a/b/deep/test_e.py",
        "tests/a/b/test_c.py",
        "tests/a/b/test_d.py",
        "tests/a/test_f.py",
        "tests/test_run.py",
    ]
    changed = ["a/b/c.md", "a/b/c.py", "tests/a/test_f.py", "run.py"]
    found = tiers.affected(slow, changed)
    assert found == [slow[3], slow[1], slow[2], slow[4]]
    assert tiers.affected(slow, ["b.py", "tests/a/b.py", "c/d.py"]) == []


def test_every_slow_file_has_a_turn():
    slow = [f"test_{i}.py" for i in range(60)]
    firsts = set()
    for turn in range(57):
        found = tiers.parts(slow, slow[5:8], turn)
        files = [path for part in found for path in part]
        assert sorted(files) == sorted(slow) and len(found) == 3
        assert files[:6:2] == slow[5:8]
        firsts.add(files[1])
    assert len(firsts) == 57
    assert tiers.parts(slow, slow, 7) == tiers.parts(slow, slow, 8)


def test_changes_of_the_last_day_are_those_of_git(tmp_path, monkeypatch):
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    assert tiers.changed_files() == []  # no repository
    who = ("-c", "user.name=a", "-c", "user.email=a")
    git = ["git", "-C", str(tmp_path), *who]
    subprocess.run([*git, "init", "-q"], check=True)
    for day, name in enumerate(("old.py", "first.py", "last.py")):
        (tmp_path / name).touch()
        subprocess.run([*git, "add", name], check=True)
        date = (
            f"2020-01-02T{9 * day:02}:00:00Z" if day else "2020-01-01T00:00:00Z"
        )
        subprocess.run(
            [*git, "commit", "-q", "-m", name],
            env=os.environ | {"GIT_COMMITTER_DATE": date},
            check=True,
        )
    assert tiers.changed_files() == ["last.py", "first.py"]
