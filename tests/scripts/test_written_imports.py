"""Imports inside scripts, pages, notebooks and strings name what exists.

An import of a module fails when the module is loaded; one in a program that
a script hands to `python -c` fails on the machine of whoever runs the script.
"""

import ast
import functools
import pathlib
import re
import subprocess

import pytest

from tests.conftest import ROOT
from tests.helpers import layers

HOUSES = (*layers.PACKAGES, "tests")
LINE = re.compile(
    rf"\bfrom ((?:{'|'.join(HOUSES)})(?:\.\w+)*) import "
    r"(\([\w\s,]*\)|\w+(?: as \w+)?(?:, *\w+(?: as \w+)?)*)"
)
# What a script starts: `-m a.module`, a file of the tests.
STARTED = re.compile(rf"-m ((?:{'|'.join(HOUSES)})(?:\.\w+)*)")
TEST_FILE = re.compile(r"\btests/[\w/]+\.py\b")
SUFFIXES = (".sh", ".md", ".ipynb", ".yml", ".toml", ".py", "")
# Module names of earlier releases; mistakes that a test plants.
EXEMPT = (
    "CHANGELOG.md",
    "tests/test_layering.py",
    "tests/helpers/layers.py",
    "tests/scripts/test_written_imports.py",
)


def written_in(text: str) -> list[tuple[str, str]]:
    """(module, name) of every import that a text holds, in code or not."""
    text = text.replace('\\n", \n', "\n").replace("\\n", "\n")
    return [
        (found[1], name.split()[0])
        for found in LINE.finditer(text)
        for name in found[2].strip("()\n ").split(",")
        if name.strip()
    ]


@functools.cache
def names_of(path: pathlib.Path) -> frozenset[str]:
    """What a module binds, in whatever block."""
    found = set()
    for node in ast.walk(layers.tree_of(path)):
        if isinstance(
            node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {(a.asname or a.name).split(".")[0] for a in node.names}
    return frozenset(found)


def exists(module: str, name: str) -> bool:
    """Whether `from module import name` would work."""
    parts = module.split(".")
    if parts[0] == "xlnet_tf2":  # it has the tree's folders
        parts = parts[1:] or parts
        if name in layers.PACKAGES:
            return True
    folder = ROOT.joinpath(*parts)
    if folder.is_dir():
        if (folder / name).is_dir() or (folder / f"{name}.py").is_file():
            return True
        folder /= "__init__"
    path = folder.with_suffix(".py")
    if not path.is_file():
        return False
    # A module whose names are made on demand answers for itself.
    return name in names_of(path) or "__getattr__" in names_of(path)


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    names = done.stdout.split()
    if not names:
        pytest.skip("not a clone")
    return [
        n
        for n in names
        if pathlib.Path(n).suffix in SUFFIXES and n not in EXEMPT
    ]


@pytest.mark.long
def test_every_import_names_what_exists():
    wrong, read = [], 0
    for name in tracked():
        path = ROOT / name
        for module, what in written_in(path.read_text(errors="replace")):
            read += 1
            if not exists(module, what):
                wrong.append(f"{name}: from {module} import {what}")
    assert not wrong, "\n".join(wrong)
    assert read > 3000


@pytest.mark.parametrize(
    "line",
    [
        """CORRECT='from common import tpu_build; tpu_build.check("x")'""",
        'run(["python", "-c", "from data.text import nothing_here"])',
        '"from modeling.nowhere import XLNetModel\\n",',
    ],
)
def test_a_planted_mistake_is_found(line):
    assert [exists(*pair) for pair in written_in(line)] == [False]


def test_what_exists_is_found():
    line = "from common.process import tpu_build, (\nx)\n"
    assert written_in(line)[0] == ("common.process", "tpu_build")
    assert exists("common.process", "tpu_build")
    assert exists("modeling", "XLNetModel")


def test_every_module_that_a_script_starts_exists():
    wrong, read = [], 0
    for name in tracked():
        if pathlib.Path(name).suffix not in (".sh", ".yml", ""):
            continue
        text = (ROOT / name).read_text(errors="replace")
        paths = TEST_FILE.findall(text)
        for module in STARTED.findall(text):
            folder = ROOT.joinpath(*module.split("."))
            package = folder / "__main__.py"
            paths.append(
                str(package if folder.is_dir() else folder.with_suffix(".py"))
            )
        read += len(paths)
        wrong += [f"{name}: {p}" for p in paths if not (ROOT / p).is_file()]
    assert not wrong, "\n".join(wrong)
    assert read > 20


def imported_tests(tree: ast.Module) -> list[str]:
    """Test files that a file imports: helpers are in other modules."""
    return sorted(
        name
        for name in layers.imports(tree)
        if re.match(r"tests\.(\w+\.)*test_\w+$", name)
    )


def test_no_file_imports_a_test_file():
    wrong = {
        str(path.relative_to(ROOT)): names
        for path in ROOT.glob("tests/**/*.py")
        if (names := imported_tests(layers.tree_of(path)))
    }
    assert not wrong, f"move what they share to a helper: {wrong}"
    for line in ("from tests.a import test_b", "from tests.test_b import x"):
        assert imported_tests(ast.parse(line))
    assert not imported_tests(ast.parse("from tests.helpers import layers"))
