"""The command's arguments are layers and tokens."""

import sys

import pytest

from benchmarks.compare import generation


@pytest.mark.parametrize("given", [[], ["3"], ["three", "64"]])
def test_other_arguments_are_one_line(monkeypatch, capsys, given):
    monkeypatch.setattr(sys, "argv", ["generation", *given])
    with pytest.raises(SystemExit) as left:
        generation.main()
    assert left.value.code == 2
    assert "error: " in capsys.readouterr().err
