"""The reference folder is reached through its fixture, so that it may lack."""

import ast
import pathlib

import pytest

from tests.conftest import ROOT
from tests.helpers import layers

HERE = ROOT / "tests"
# The fixture; and names of parameters, which are made before any fixture.
ALLOWED = {"conftest.py", "modeling/encoders/golden_encoders.py"}


def places(tree: ast.Module) -> list[int]:
    """Lines that reach for the folder without the fixture."""
    found = []
    for node in ast.walk(tree):
        name = getattr(node, "id", getattr(node, "attr", None))
        if isinstance(node, ast.ImportFrom):
            named = any(alias.name == "SHARED" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A part of a path; `mark.shared` is no string.
            named = "shared" in pathlib.PurePath(node.value).parts
        else:
            named = name == "SHARED"
        if named:
            found.append(node.lineno)
    return found


@pytest.mark.long
def test_only_the_fixture_gives_the_folder():
    found = {
        f"{path.relative_to(HERE)}:{line}"
        for path in HERE.rglob("*.py")
        if str(path.relative_to(HERE)) not in ALLOWED
        for line in places(layers.tree_of(path))
        if path != pathlib.Path(__file__).resolve()
    }
    assert not found, f"use the fixture `shared` or `golden`: {sorted(found)}"
    assert places(ast.parse('x = root.parent / "shared" / "golden"')) == [1]
    assert places(ast.parse('open("../shared/golden/a.json")')) == [1]
    assert places(ast.parse("from tests.conftest import SHARED")) == [1]
    assert not places(
        ast.parse("@pytest.mark.shared\ndef test_a(shared): pass")
    )


def test_the_mark_and_the_fixture_are_one(request):
    """What has one has the other: CI runs the marked tests with the folder."""
    for item in request.session.items:
        marked = item.get_closest_marker("shared") is not None
        assert marked == ("shared" in item.fixturenames), item.nodeid
