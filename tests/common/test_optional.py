"""Optional packages, and the line that names the one that is missing."""

import sys

import pytest

from common import optional
from common.errors import UserError


def test_a_package_or_how_to_install_it(monkeypatch):
    assert optional.load("json", "x", "y").loads("1") == 1
    monkeypatch.setitem(sys.modules, "json", None)
    with pytest.raises(UserError, match="^--x needs the package json .*-r y$"):
        optional.load("json", "--x", "y")
