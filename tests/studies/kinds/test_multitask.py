"""The table of joint training: which jobs, which models, which numbers."""

import json
import os
import statistics

import pytest

from common.errors import UserError
from studies.kinds.registry import load, runner_of
from studies.runner import jobs, known_jobs, study_file

OPTIONS = """
kind = "multitask"
seeds = 3
start = "START"
joint = { command = "run_multitask.py", data_dir = "{data}" }
alone = { command = "run_classifier.py", train_steps = 5 }
tasks = { mnli = {}, cola = { max_seq_length = 9 } }
metrics = { cola = "matthews" }
"""


@pytest.fixture
def done(monkeypatch, tmp_path):
    """Jobs that are told instead of run, and the rows of the table."""
    asked = []

    def run_job(job, folder, cores):
        asked.append(job)
        # A number for each cell that tells which one it is.
        return {
            label: 0.5 + 0.01 * sum(map(ord, job.name + label)) % 0.3
            for label in job.reads
        } | {"seconds": 1.0}

    monkeypatch.setattr(jobs, "run_job", run_job)
    path = tmp_path / "options.toml"
    path.write_text(OPTIONS)
    options = load(str(path), {"data": "DATA"})
    runner = runner_of(str(tmp_path / "out"), options)
    runner._say = lambda line: None
    return asked, runner.run(), runner


def test_the_jobs_and_their_models(done):
    asked, _, runner = done
    assert [job.name for job in asked] == [
        *("schedule-0", "alone/cola", "schedule-1", "schedule-2"),
        *("alone-together/mnli", "alone-together/cola"),
        *("joint-together/mnli", "joint-together/cola"),
    ]
    words = {job.name: job.commands[0] for job in asked}
    assert "--schedule=paper" in words["schedule-1"]
    assert "--seed=1" in words["schedule-1"]
    assert "--data_dir=DATA" in words["schedule-1"]
    assert "--init_checkpoint=START" in words["alone/cola"]
    assert "--num_seeds=3" in words["alone/cola"]
    assert "--max_seq_length=9" in words["joint-together/cola"]
    # Large tasks alone and the others after the joint part are the
    # schedule's; the joint part itself has a head per large task.
    places = {
        "alone-together/mnli": "schedule-{}/run/mnli",
        "joint-together/mnli": "schedule-{}/run/joint/tasks/mnli",
        "alone-together/cola": "alone/cola/run/seed_{}",
        "joint-together/cola": "schedule-{}/run/cola",
    }
    for name, place in places.items():
        members = ",".join(runner.path(place.format(i)) for i in range(3))
        assert f"--ensemble={members}" in words[name]
    reads = asked[0].reads
    assert set(reads) == {"alone mnli", "joint mnli", "joint cola"}
    assert reads["joint cola"][1] == "matthews"


def test_the_rows(done):
    _, rows, runner = done
    names = [row.name for row in rows]
    assert names[1:3] == ["alone", "joint"] and len(names) == 5
    joint = [
        100 * runner.results[f"schedule-{i}"]["joint cola"] for i in range(3)
    ]
    assert list(rows[2].values["cola"].values()) == joint
    text = runner.text(rows)
    assert "cola, matthews" in text
    assert f"{statistics.median(joint):.1f}" in text
    # One difference: an ensemble is of no seed.
    assert text.count("less alone") == 1


def test_numbers_and_jobs_are_written(done):
    """An ensemble needs the weights of all: jobs travel together or not."""
    _, rows, runner = done
    os.makedirs(runner.folder)
    paths = [os.path.basename(path) for path in runner.write(rows)]
    assert paths == ["table.md", "results.json", "table.tsv"]
    for job in runner.listed[:-1]:
        os.makedirs(runner.path(job.name))
        for name in (jobs.RESULT, jobs.ATTEMPT):
            with open(runner.path(job.name, name), "w") as f:
                f.write('{"commands": []}')
    path = known_jobs.write(runner, runner.listed)
    with open(path) as f:
        assert f.read().strip() == "{}"
    known = known_jobs.write(runner, runner.listed[:-1])
    with open(known) as f:
        assert len(json.load(f)) == len(runner.listed) - 1


def test_the_chosen_tasks(done):
    _, _, runner = done
    assert list(runner.options.chosen(["cola"]).tasks) == ["cola"]
    with pytest.raises(UserError, match="no 'rte' among mnli, cola"):
        runner.options.chosen(["rte"])


def test_the_file_of_options(tmp_path):
    path = study_file.path_of("multitask")
    given = load(path, {"data": "D", "start": "S"})
    assert given.seeds == 3 and len(given.tasks) == 9 and given.start == "S"
    path = tmp_path / "options.toml"
    for wrong, message in (
        ("mnli = {}, xnli = {}", "'xnli' is no task of the schedule"),
        ("", "wanted .tasks. and `seeds`"),
        ("mnli = []", "tasks.mnli must be a table, found"),
    ):
        found = OPTIONS.replace(
            "mnli = {}, cola = { max_seq_length = 9 }", wrong
        )
        path.write_text(found)
        with pytest.raises(UserError, match=message):
            load(str(path), {"data": "D"})


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("steps = 5", "steps = 5, seed = 7", ".alone.: `seed` is set by the"),
        ('"{data}"', '"x", seed = 7', ".joint.: `seed` is set by the runner"),
        ("h = 9", "h = 9, task_name = 'x'", "tasks.cola: `task_name` is set"),
    ],
)
def test_flags_that_the_jobs_give_are_refused(tmp_path, old, new, message):
    """They had no effect, and that of a task ended in a stack trace."""
    assert old in OPTIONS
    path = tmp_path / "options.toml"
    path.write_text(OPTIONS.replace(old, new))
    with pytest.raises(UserError, match=message):
        load(str(path), {"data": "D"})
