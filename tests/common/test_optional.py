"""Optional packages, and the line that names the one that is missing."""

import sys
import tomllib

import pytest

from common import optional
from common.errors import UserError
from tests.conftest import ROOT


def test_a_package_or_how_to_install_it(monkeypatch):
    assert optional.load("json", "x", "y").loads("1") == 1
    monkeypatch.setitem(sys.modules, "json", None)
    with pytest.raises(UserError, match="^--x needs the package json .*-r y$"):
        optional.load("json", "--x", "y")


def test_an_installed_library_names_its_extra(monkeypatch, tmp_path):
    """`pip install .` leaves the files of requirements behind."""
    name = "requirements-hub.txt"
    assert optional.cure(name) == f"pip install -r {name}"
    monkeypatch.setattr(optional, "ROOT", tmp_path)
    assert optional.cure(name) == "pip install 'xlnet-tf2[hub]'"
    # No extra: it moves the versions of other packages.
    name = "requirements-beam.txt"
    assert optional.cure(name) == f"pip install -r {name}"


def test_the_extras_are_those_of_the_package():
    with open(ROOT / "pyproject.toml", "rb") as f:
        dynamic = tomllib.load(f)["tool"]["setuptools"]["dynamic"]
    assert set(optional.EXTRAS) == {*dynamic["optional-dependencies"]}
    for extra in optional.EXTRAS:
        name = f"requirements-{extra}.txt"
        assert dynamic["optional-dependencies"][extra] == {"file": [name]}
