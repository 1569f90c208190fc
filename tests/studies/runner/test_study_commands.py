"""Tasks of a file: one of each number of labels, and the chosen ones."""

import pytest

from common.errors import UserError
from studies.kinds.registry import load
from studies.runner import study_commands
from studies.runner.study_commands import tasks_of

ENTRY = {"command": "run.py", "train_steps": 9, "warmup": 3}


def test_flags_of_a_command():
    command = study_commands.command({"command": "-m x", "a": 1, "b": True})
    assert command.words(c=False, a=2) == ("-m", "x", "--a=2", "--b", "--noc")
    steps = study_commands.timed(command.words(warmup_steps=5), 7)
    assert steps[-2:] == ("--train_steps=7", "--warmup_steps=0")
    more = study_commands.timed(command.words(decay_steps=900), 7)
    assert more[-2:] == ("--train_steps=7", "--decay_steps=1")
    assert study_commands.flag_of(("x", "--a=1", "--a=2"), "a") == "2"
    with pytest.raises(UserError, match="`b` is missing"):
        study_commands.flag_of(("x", "--a=1"), "b")


def test_a_task_of_each_number_of_labels():
    entry = ENTRY | {"labels": (20, 0), "few": {"train_steps": 4}}
    tasks = tasks_of("one", entry | {"search": {"r": (1, 2), "by": "f1"}})
    assert list(tasks) == ["one-20", "one-all"]
    few, whole = tasks.values()
    assert few.flags == {"train_steps": 4, "warmup": 3, "train_examples": 20}
    assert whole.flags == {"train_steps": 9, "warmup": 3}
    assert (few.base, few.labels, few.by) == ("one", "20", "f1-20")
    assert whole.named("f1") == "f1-all" and len(whole.points()) == 2
    (task,) = tasks_of("one", ENTRY).values()
    assert (task.base, task.labels, task.named("f1")) == ("one", "", "f1")


@pytest.mark.parametrize(
    "more",
    [
        {"labels": ()},
        {"labels": 20},
        {"labels": (20, 20)},
        {"labels": (-1,)},
        {"labels": ("20",)},
        {"labels": (True,)},
        {"few": {"train_steps": 4}},
    ],
)
def test_labels_that_are_wrong_are_one_line(more):
    with pytest.raises(UserError, match="tasks.one: `labels` must be a list"):
        tasks_of("one", ENTRY | more)


def test_columns_and_rows_are_of_the_entry(options):
    """A row's flags go to all tasks of an entry, as --tasks does."""
    text = options.read_text()
    text = text.replace("tasks.two = {", "tasks.two = { labels = [5, 0],")
    text = text.replace(
        'name = "b second"', 'name = "b", tasks.two = { x = 1 }'
    )
    text = text.replace('columns = ["two"]', 'columns = ["two-5"]')
    options.write_text(text)
    given = load(str(options), {})
    assert [(c.name, c.of) for c in given.columns] == [
        *(("loss", "pretrain"), ("one", "one")),
        *(("two-5", "two-5"), ("two-all", "two-all")),
    ]
    assert given.rows[1].tasks == {"two": {"x": 1}}
    chosen = given.chosen(["two"])
    assert list(chosen.tasks) == ["two-5", "two-all"]
    assert [c.name for c in chosen.columns] == ["loss", "two-5", "two-all"]
    assert [claim.columns for claim in chosen.claims] == [("two-5",)]
    assert given.chosen(["one"]).rows[1].tasks == {}
    with pytest.raises(
        UserError, match="--tasks=one,two-5: there is no 'two-5"
    ):
        given.chosen(["one", "two-5"])
