"""The command's argument is another Python."""

import sys

import pytest

from benchmarks.compare import parity


@pytest.mark.parametrize("given", [[], ["--help"]])
def test_without_a_python_a_line_says_so(monkeypatch, given):
    monkeypatch.setattr(sys, "argv", ["parity", *given])
    with pytest.raises(SystemExit, match="error: wanted the Python of an env"):
        parity.main()
