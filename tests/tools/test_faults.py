"""Disks, damaged files and Ctrl-C: every command says one line.

The table is `tools.faults.table`; `python -m tools.faults` prints
what came of all of it.
"""

import pytest

from tests.helpers.tree_commands import INTERNAL, commands_of_the_tree
from tools.faults import run, table
from tools.faults import steps as faults_steps

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

# They touch no file: there is nothing to damage, to write or to stop at.
WITHOUT_FILES = ("modeling.explain_dependencies",)
# Tried by `python -m tools.faults` alone: ten seconds or more each.
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

    All of the table takes three times as long: `python -m tools.faults`.
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
    return run.Outcome(cell, status, text, left=left).problem()


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
    assert "control" in outcome("error: \x1b[31m/x/cell/a\n")
    assert "control" in outcome("error: a\rerror: /x/cell/a\n")
    assert outcome("\rreading:   0%|   | 0/1 [00:00<?, ?file/s]\n" + good) == ""
    assert "left behind" in outcome(good, left=("/x/.a.tmp-3",))
    assert "status 1" in outcome(good, fault=table.INTERRUPTED)


KEPT = ["1\t0.25", "2\t1.25"]
BOTH = ["model.ckpt-1.index", "model.ckpt-2.index"]


def steps(
    fault, rows, status=0, said="note: from there\n", text="", kept=BOTH, **more
):
    """What is wrong with a run that met a fault, from its log afterwards."""
    cell = table.Cell("run_pretrain, resumed", "lm", fault)
    before = {"rows": KEPT, "checkpoints": BOTH}
    after = {"rows": rows, "checkpoints": [*kept, "model.ckpt-3.index"]}
    found = run.Outcome(cell, status, text, said, (), 1.0, before, after)
    return found.problem()


def test_a_run_that_begins_anew_has_not_held():
    newest, named = "newest index: missing", "checkpoint: missing"
    new = ["1\t6.5", "2\t6.25", "3\t6.125"]
    assert "from step 1, found the log" in steps(newest, new)
    assert "from step 2, found the log" in steps(named, new)
    assert steps(newest, [KEPT[0], *new[1:]]) == ""
    assert steps(named, [*KEPT, new[2]]) == ""
    # One step more than was lost is trained again.
    assert "from step 2, found" in steps(named, [KEPT[0], *new[1:]])
    assert "without a line" in steps(named, [*KEPT, new[2]], said="")
    assert "without a line" not in steps(
        "signs in the folder's name", [*KEPT, new[2]], said=""
    )
    # It may stop where nothing else is promised, and loses nothing then.
    line = "error: /x/cell/lm is damaged\n"
    assert steps("index: cut", KEPT, 1, text=line) == ""
    assert "steps were lost" in steps("index: cut", new, 1, text=line)
    assert "steps were lost" in steps(
        "index: cut", KEPT, 1, text=line, kept=BOTH[:1]
    )
    assert "status 1" in steps(newest, KEPT, 1, text=line)
    # A reader says whose weights it took.
    said = "note: took\nweights      /x/cell/lm/model.ckpt-{} (newest)\n"
    assert steps(newest, KEPT, said=said.format(1)) == ""
    assert "wanted the weights of step 1" in steps(
        newest, KEPT, said=said.format(2)
    )
    assert "wanted the weights" in steps(newest, KEPT)


def test_rows_are_marked_as_no_training_writes_them(tmp_path):
    log = tmp_path / "losses.tsv"
    log.write_text("step\tloss\n1\t6.5\n2\t6.25\n")
    faults_steps.mark(str(tmp_path))
    (tmp_path / "model.ckpt-2.index").touch()
    found = faults_steps.look(str(tmp_path))
    assert found == {"rows": KEPT, "checkpoints": BOTH[1:]}
    assert faults_steps.look(str(tmp_path / "none"))["rows"] == []
