"""Slow tests start in time or not at all."""

import os
import subprocess
import sys
import tomllib
import types

import pytest

from tests import conftest


@pytest.mark.parametrize("slow", [True, False])
def test_only_slow_tests_are_left_out_when_time_is_over(
    request, monkeypatch, slow
):
    item = request.node
    if slow:
        item.add_marker("slow")
    conftest.pytest_runtest_setup(item)  # there is time
    monkeypatch.setattr(conftest, "SLOW_UNTIL", 1.0)
    if not slow:
        conftest.pytest_runtest_setup(item)
        return
    with pytest.raises(pytest.skip.Exception, match="XLNET_SLOW_UNTIL"):
        conftest.pytest_runtest_setup(item)


def test_marks_of_plugins_are_known_without_them():
    """`tools.mutants` runs tests without xdist; unknown marks end a run."""
    text = (conftest.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    options = tomllib.loads(text)["tool"]["pytest"]["ini_options"]
    known = {line.partition(":")[0] for line in options["markers"]}
    assert {"long", "slow", "bench", "xdist_group"} <= known


_SHARING = """
import pytest

@pytest.fixture(scope="module")
def made():
    return print("made")

@pytest.mark.parametrize("i", range(6))
def test_it(made, i):
    pass
"""


@pytest.mark.long
def test_a_fixture_of_a_module_is_made_in_one_process(tmp_path):
    """Two processes made the models of every slow module, for no error."""
    hook = "from tests.conftest import pytest_collection_modifyitems\n"
    (tmp_path / "conftest.py").write_text(hook)
    (tmp_path / "test_sharing.py").write_text(_SHARING)
    paths = filter(None, (str(conftest.ROOT), os.environ.get("PYTHONPATH")))
    command = [sys.executable, "-m", "pytest", "-n", "2", "-rP"]
    done = subprocess.run(
        [*command, "--dist", "loadgroup", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "6 passed" in done.stdout
    assert done.stdout.count("\nmade\n") == 1


def test_files_that_a_run_leaves_in_the_root_end_it(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("/build/\n.gitignore\n")
    monkeypatch.setattr(conftest, "ROOT", tmp_path)
    config = types.SimpleNamespace(stash=pytest.Stash(), option=None)
    session = types.SimpleNamespace(config=config, exitstatus=0)
    (tmp_path / "mine").touch()
    conftest.pytest_sessionstart(session)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "page.html").touch()
    conftest.pytest_sessionfinish(session)
    assert session.exitstatus == 0
    (tmp_path / "y-1.0-py3-none-any.whl").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model").touch()
    conftest.pytest_sessionfinish(session)
    assert session.exitstatus == 1
    said = []
    reporter = types.SimpleNamespace(stats={}, write_line=said.append)
    conftest.pytest_terminal_summary(reporter, config)
    assert said == [
        "WRITTEN BESIDE THE SOURCES: ['out/', 'y-1.0-py3-none-any.whl']"
    ]
