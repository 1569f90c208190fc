"""The table of joint training: which jobs, which models, which numbers."""

import statistics

import pytest

from common.errors import UserError
from studies import multitask_table
from studies.runner import jobs
from studies.runner.seed_table import table
from tests.conftest import ROOT

OPTIONS = """
seeds = 3
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
    options = multitask_table.load(str(path), {"data": "DATA"})
    runner = multitask_table.MultiTaskTable(
        str(tmp_path / "out"), options, "START"
    )
    runner._say = lambda line: None
    return asked, options, runner.run(), runner


def test_the_jobs_and_their_models(done):
    asked, _, _, runner = done
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
    _, options, rows, runner = done
    names = [row.name for row in rows]
    assert names[1:3] == ["alone", "joint"] and len(names) == 5
    joint = [
        100 * runner.results[f"schedule-{i}"]["joint cola"] for i in range(3)
    ]
    assert list(rows[2].values["cola"].values()) == joint
    text = table(rows, multitask_table.columns(options), "alone")
    assert "cola, matthews" in text
    assert f"{statistics.median(joint):.1f}" in text
    # One difference: an ensemble is of no seed.
    assert text.count("less alone") == 1


def test_the_file_of_options(tmp_path):
    folder = ROOT / "studies" / "options" / "multitask_table.toml"
    given = multitask_table.load(str(folder), {"data": "D"})
    assert given.seeds == 3 and len(given.tasks) == 9
    path = tmp_path / "options.toml"
    for wrong, message in (
        ("mnli = {}, xnli = {}", "'xnli' is no task of the schedule"),
        ("", "wanted .tasks. and `seeds`"),
    ):
        found = OPTIONS.replace(
            "mnli = {}, cola = { max_seq_length = 9 }", wrong
        )
        path.write_text(found)
        with pytest.raises(UserError, match=message):
            multitask_table.load(str(path), {"data": "D"})
