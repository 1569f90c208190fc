"""Every flag is read, every help text is unique within a command."""

import ast
import collections
import functools
import json
import pathlib
import subprocess
import sys

import pytest

from flags import other_names
from tests.helpers import layers

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "flags.tsv"
# (command, flag): see CHANGELOG.md.
CHANGED = {
    ("data.convert_corpus", "layout"),
    ("data.create_pretraining_data", "sampler"),
    ("data.inspect", "plot_file"),
    ("data.demo_corpus", "max_megabytes"),
    ("serving.embed", "pooling"),
    ("run_classifier", "task_name"),
    ("run_race", "data_dir"),
    ("run_ranking", "max_doc_length"),
    ("run_ranking", "max_query_length"),
    ("run_ranking", "qrels_format"),
}


def flag_definitions() -> list[tuple[pathlib.Path, str, str]]:
    """(file, flag, help) of every DEFINE_* call with literal arguments."""
    found = []
    for path in sorted((ROOT / "flags").rglob("*.py")):
        if path.stem in ("flag_values", "help_text"):  # any flag
            continue
        for node in ast.walk(layers.tree_of(path)):
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


@functools.cache
def listing() -> dict[str, dict[str, dict]]:
    """Command -> flag -> what it is, in a process of its own."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "flags_page.py", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def read_golden() -> dict[str, dict[str, tuple]]:
    """Command -> flag -> (type, default, choices) of an earlier version."""
    found = collections.defaultdict(dict)
    with open(GOLDEN, encoding="utf-8") as file:
        for line in file:
            name, kind, default, choices, commands = line[:-1].split("\t")
            for command in commands.split(","):
                value = (kind, json.loads(default), choices)
                found[command][name] = value
    return found


def test_types_defaults_and_choices_are_kept():
    """Flags may be added; what there was is changed in the CHANGELOG alone."""
    now = listing()
    differing = {}
    for command, flags in read_golden().items():
        for name, value in flags.items():
            flag = now[command].get(name)
            found = flag and (
                flag["type"],
                flag["default"],
                "|".join(flag["choices"]),
            )
            if found != value and (command, name) not in CHANGED:
                differing[command, name] = (value, found)
    assert not differing


def test_every_command_tells_names_of_other_programs():
    """All of those that it lacks, at once."""
    for flags in listing().values():
        lacking = [name for name in other_names.NAMES if name not in flags]
        line = other_names.hint([f"--{name}=1" for name in lacking], flags)
        for name in lacking:
            whose, instead = other_names.NAMES[name]
            assert f"--{name} is a flag of {whose}; here: {instead}" in line


@pytest.mark.long
def test_settings_that_are_flags_are_built():
    """A class whose settings have flags is made from them somewhere."""
    calls = {"define": set(), "build": set()}
    for path in layers.source_files():
        for node in ast.walk(layers.tree_of(path)):
            if isinstance(node, ast.Call) and node.args:
                name = ast.unparse(node.func)
                inside = "flags" in path.parts and name == "_define"
                name = name.removeprefix("flag_values.")
                if name in calls and "flag_values." in ast.unparse(node.func):
                    calls[name].add(ast.unparse(node.args[0]))
                if inside:  # of several classes
                    calls["define"] |= set(map(ast.unparse, node.args))
    classes = {n for n in calls["define"] if n.endswith("Options")}
    assert len(classes) > 25
    assert classes <= calls["build"]


@pytest.mark.long
def test_every_flag_is_read():
    reads = set()
    for path in layers.source_files():
        tree = layers.tree_of(path)
        reads |= names_in_tables(tree)
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
    for command, flags in listing().items():
        texts = collections.defaultdict(list)
        for name, flag in flags.items():
            assert len(flag["help"]) > 6, f"{command} --{name} says too little"
            texts[flag["help"]].append(name)
        shared = [names for names in texts.values() if len(names) > 1]
        assert not shared, f"{command}: {shared} have one help text"
