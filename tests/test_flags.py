"""Every flag is read, every help text is unique within a command."""

import ast
import collections
import dataclasses
import importlib
import pathlib

from tests import layers

ROOT = pathlib.Path(__file__).resolve().parents[1]


def flag_definitions() -> list[tuple[pathlib.Path, str, str]]:
    """(file, flag, help) of every DEFINE_* call with literal arguments."""
    found = []
    for path in sorted((ROOT / "flags").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr.startswith("DEFINE_")
            ):
                continue
            assert node.args and isinstance(node.args[0], ast.Constant), (
                f"{path}:{node.lineno}: the flag's name is no literal"
            )
            texts = [
                a.value
                for a in (*node.args[1:], *(k.value for k in node.keywords))
                if isinstance(a, ast.Constant) and isinstance(a.value, str)
            ]
            text = max(texts, key=len) if texts else ast.unparse(node)
            found.append((path, node.args[0].value, text))
    return found


def names_in_tables(tree: ast.Module) -> set[str]:
    """Strings in the tuples that a module names, if it reads FLAGS by name."""
    by_name = any(
        isinstance(node, ast.Subscript)
        and getattr(node.value, "id", "") == "FLAGS"
        and not isinstance(node.slice, ast.Constant)
        or isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "getattr"
        and getattr(node.args[0], "id", "") == "FLAGS"
        for node in ast.walk(tree)
    )
    if not by_name:
        return set()
    return {
        constant.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple)
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant)
    }


def fields_that_are_built(path: pathlib.Path, tree: ast.Module) -> set[str]:
    """Fields of the options that `flag_values.build` takes from flags."""
    found = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "flag_values.build"
        ):
            module = importlib.import_module(f"flags.{path.stem}")
            options = getattr(module, node.args[0].id)
            found |= {f.name for f in dataclasses.fields(options)}
            found -= {k.arg for k in node.keywords}
    return found


def test_every_flag_is_read():
    reads = set()
    for path in layers.source_files():
        tree = ast.parse(path.read_text())
        reads |= names_in_tables(tree) | fields_that_are_built(path, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                if getattr(node.value, "id", "") in ("FLAGS", "values"):
                    reads.add(node.attr)
            elif (
                isinstance(node, ast.Subscript)
                and getattr(node.value, "id", "") == "FLAGS"
                and isinstance(node.slice, ast.Constant)
            ):
                reads.add(node.slice.value)
    unread = sorted({n for _, n, _ in flag_definitions()} - reads)
    assert not unread, f"flags that nobody reads: {unread}"


def test_help_texts_are_unique():
    texts = collections.defaultdict(set)
    for path, name, text in flag_definitions():
        assert len(text) > 10, f"{path.name}: --{name} says too little"
        texts[(path, text)].add(name)
    shared = [n for n in texts.values() if len(n) > 1]
    assert not shared, f"flags with the same help text: {shared}"
