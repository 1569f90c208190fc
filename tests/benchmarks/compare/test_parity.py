"""The command's argument is another Python."""

import sys

import pytest

from benchmarks.compare import parity


@pytest.mark.parametrize("name", ["none", "."])
def test_what_is_no_python_is_one_line(monkeypatch, capsys, tmp_path, name):
    path = str(tmp_path / name)
    monkeypatch.setattr(sys, "argv", ["parity", path])
    with pytest.raises(SystemExit, match="2"):
        parity.main()
    said = capsys.readouterr().err
    assert "error: wanted the Python of an environment with " in said
    assert said.endswith(f"found {path}\n")


def test_a_python_without_the_packages_ends_in_a_line(monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["parity", sys.executable])
    with pytest.raises(SystemExit, match="made no outputs: its line is above"):
        parity.main()
    said = capfd.readouterr().err
    assert said.startswith("error: wanted an environment of requirements-bench")
    assert "Traceback" not in said
