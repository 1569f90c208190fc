"""The planted mistakes fit the sources; what counts as found."""

import json
import subprocess
import sys

import pytest

from common.errors import UserError
from tools import mutant_server, mutant_table, mutants

MUTANTS = mutant_table.load()


def test_every_mistake_can_be_planted():
    problems = {m.id: m.problem(mutant_table.ROOT) for m in MUTANTS}
    assert {k: v for k, v in problems.items() if v} == {}


def test_there_are_a_hundred_that_must_be_found():
    assert sum(not m.equivalent for m in MUTANTS) >= 100


@pytest.mark.parametrize(
    "changes, words",
    [
        (dict(file="gone.py"), "does not exist"),
        (dict(old="y = 9"), "found 0 times"),
        (dict(old="= 1"), "found 2 times"),
        (dict(old="x = 1", new="x = 1"), "equal"),
        (dict(new="x = ("), "does not parse"),
        (dict(tests=()), "no tests run first for a.py"),
        (dict(tests=("test_gone.py",)), "test_gone.py"),
        (dict(tests=("a.py::test_gone",)), "no test_gone"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_said(tmp_path, changes, words):
    (tmp_path / "a.py").write_text("x = 1\nz = 1\n")
    entry = dict(id="a", file="a.py", old="x = 1", new="x = 2", why="")
    entry |= dict(tests=("a.py",), wide=())
    assert mutant_table.Mutant(**entry).problem(tmp_path) is None
    problem = mutant_table.Mutant(**(entry | changes)).problem(tmp_path)
    assert words in problem


def test_a_wrong_table_is_refused(tmp_path):
    head = '[tests]\n"a/" = ["t"]\n"a/b/" = ["u"]\n[wide]\n'
    entry = '[[mutant]]\nid="x"\nold="1"\nnew="2"\nwhy="w"\n'
    path = tmp_path / "t.toml"
    path.write_text(head + entry + 'file="a/b/c.py"\n')
    (mutant,) = mutant_table.load(path)
    assert mutant.tests == ("u",) and mutant.wide == ()
    path.write_text(head + (entry + 'file="a/c.py"\n') * 2)
    with pytest.raises(UserError, match="twice"):
        mutant_table.load(path)
    path.write_text(head + entry + 'file="a/c.py"\nline=3\n')
    with pytest.raises(UserError, match="line"):
        mutant_table.load(path)


# The server forks before TensorFlow has threads; the process of these tests may
# have them by now, and its forks could crash.
_ANSWER = """
import json, sys
from tools import mutant_server
for line in sys.stdin:
    print(json.dumps(mutant_server.run_tests(json.loads(line))))
"""


@pytest.mark.long
def test_a_failure_a_hang_and_a_crash_are_told_apart(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "import os, time\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 0\n"
        "def test_slow(): time.sleep(60)\n"
        "def test_crash(): os.kill(os.getpid(), 9)\n"
    )
    arguments = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    arguments += ["-c", "/dev/null", "--assert=plain", "-p", "no:xdist"]

    def request(name, timeout=60.0):
        found = {
            "args": [*arguments, f"{tmp_path}/test_a.py::{name}"],
            "timeout": timeout,
            "log": str(tmp_path / "log"),
        }
        return json.dumps(found) + "\n"

    done = subprocess.run(
        [sys.executable, "-c", _ANSWER],
        input=request("test_good")
        + request("test_bad")
        + request("test_slow", 1.0)
        + request("test_crash"),
        cwd=mutant_table.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [
        mutants.verdict(json.loads(line)) for line in done.stdout.splitlines()
    ] == ["", "test_a.py::test_bad", "timeout", "signal 9"]


def test_a_module_that_is_not_installed_is_not_preloaded():
    mutant_server.preload(["json", "a_module.that_nobody_has", "textwrap"])
    assert "textwrap" in sys.modules


def test_a_server_that_ends_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "_SERVE", "raise SystemExit('no room')")
    tree = tmp_path / "tree"
    tree.mkdir()
    server = mutants.Server(tree)
    with pytest.raises(UserError, match="ended: no room$"):
        server.run(["tests/x.py"], 60.0)
    server.close()


@pytest.mark.parametrize("beside", [True, False])
def test_a_missing_reference_folder_is_said(
    tmp_path, monkeypatch, capsys, beside
):
    """A run without it left 44 mistakes that its numbers find."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path / "tree")
    folder = mutants.reference_folder()
    assert folder.parent == tmp_path
    if beside:
        folder.mkdir()
    assert mutants.run([], tmp_path / "out") == {}
    found = capsys.readouterr().out
    assert (f"no {folder}: what only" in found) == (not beside)
