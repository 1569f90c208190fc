"""Disks, damaged files and Ctrl-C: every command says one line.

The table is `benchmarks.faults.table`; `python -m benchmarks.faults` prints
what came of all of it.
"""

import ast

import pytest

from benchmarks.faults import run, table
from tests import layers

# Cells that need no trained model.
QUICK = (
    "data.convert_corpus-text-gz: cut",
    "data.convert_corpus-output-nearly full disk",
    "data.convert_corpus-Ctrl-C",
    "data.create_pretraining_data-jsonl-deep JSON",
    "data.create_pretraining_data-spiece-empty",
    "data.create_pretraining_data-output-full disk",
    "data.create_pretraining_data-output-read-only",
    "data.inspect-records-manifest.json: a JSON list",
    "data.inspect-records-records: other bytes",
    "run_pretrain-records-manifest.json: deep JSON",
    "run_pretrain-output-a file in its way",
    "run_classifier-task-train.tsv: xz: cut",
    "run_classifier-config-zeros",
    "run_squad-squad_file-gz: other bytes",
    "run_squad-config-null everywhere",
    "run_race-race_data-1.txt: deep JSON",
    "run_race-output-read-only",
    "modeling.explain_permutation-output-full disk",
)

# Started by another command alone, with inputs that this one made.
INTERNAL = ("serving.export.reload_check",)
# They touch no file: there is nothing to damage, to write or to stop at.
WITHOUT_FILES = ("modeling.explain_dependencies",)
# Tried by `python -m benchmarks.faults` alone: ten seconds or more each.
LONG = (
    ("data.demo_corpus", "full disk"),
    ("data.demo_corpus", "nearly full disk"),
    ("serving.embed", "nearly full disk"),
    ("serving.export", "nearly full disk"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with run.server(str(tmp_path_factory.mktemp("faults"))) as made:
        yield made


def problems(server, cells):
    found = {}
    for cell in cells:
        problem = server.try_cell(cell).problem()
        if problem:
            found[str(cell)] = problem
    return found


def commands_of_the_tree():
    """Every command of the product, by the name that `python -m` takes."""
    found = set()
    for path in layers.source_files():
        name = layers.module_name(path)
        package = name.split(".")[0]
        if package in ("benchmarks", "scripts"):
            continue
        if layers.is_command(ast.parse(path.read_text())):
            stem = path.relative_to(layers.ROOT).with_suffix("")
            found.add(".".join(stem.parts))
    return found


def test_every_command_is_in_the_table():
    rows = {c.module for c in table.COMMANDS} | {*INTERNAL, *WITHOUT_FILES}
    found = commands_of_the_tree()
    assert rows <= found
    assert found <= rows


@pytest.mark.slow
def test_faults_without_a_model(server):
    cells = [c for c in table.cells() if str(c) in QUICK]
    assert len(cells) == len(QUICK)
    assert problems(server, cells) == {}


def part_of_the_table():
    """Every fault of every kind of input, on the commands in turn.

    All of the table takes three times as long: `python -m benchmarks.faults`.
    """
    rows: dict[tuple, list] = {}
    for cell in table.cells():
        command = table.command_named(cell.command)
        kind = command.inputs.get(cell.input, cell.input)
        if (cell.command, cell.fault) not in LONG:
            rows.setdefault((kind, cell.fault), []).append(cell)
    found = [cells[i % len(cells)] for i, cells in enumerate(rows.values())]
    missed = {c.name for c in table.COMMANDS} - {c.command for c in found}
    found += [table.Cell(name, "", table.INTERRUPTED) for name in missed]
    # What is written is written by each command in its own way.
    found += [c for c in table.cells() if c.fault == table.OF_OUTPUT[0]]
    return [
        c
        for c in dict.fromkeys(found)
        if str(c) not in QUICK and (c.command, c.fault) not in LONG
    ]


def test_the_part_meets_every_command():
    cells = part_of_the_table() + [c for c in table.cells() if str(c) in QUICK]
    assert {c.command for c in cells} == {c.name for c in table.COMMANDS}


@pytest.mark.slow
def test_faults_on_every_command(server):
    assert problems(server, part_of_the_table()) == {}


def outcome(text, status=1, left=(), fault="cut"):
    cell = table.Cell("data.inspect", "records", fault)
    return run.Outcome(cell, status, text, left).problem()


def test_a_fault_that_was_not_held_is_seen():
    good = "reading\nerror: /x/cell/records/manifest.json is cut\n"
    assert outcome(good) == ""
    assert "status 0" in outcome("", 0)
    assert "stack trace" in outcome(
        "Traceback (most recent call last):\n" + good
    )
    assert "noise" in outcome("WARNING:tensorflow:bad file\n" + good)
    assert "one line" in outcome(good + "more\n")
    assert "one line" in outcome(good + good)
    assert "names no file" in outcome("error: something is wrong\n")
    assert "left behind" in outcome(good, left=("/x/.a.tmp-3",))
    assert "status 1" in outcome(good, fault=table.INTERRUPTED)
