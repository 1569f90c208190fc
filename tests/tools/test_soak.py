"""Killed processes: three of the soak's kills, and one of two processes."""

import subprocess
import time

import pytest

from tools.soak import killing, workers
from training.reporting import loss_log

pytestmark = pytest.mark.slow


def test_three_kills_leave_no_trace(tmp_path):
    outcome = killing.soak(str(tmp_path), kills=3, steps=80, seed=2)
    assert outcome.kills == 3 and outcome.starts == 4
    assert outcome.same_log and outcome.same_weights


def test_a_killed_worker_ends_the_other_and_all_go_on(tmp_path):
    flags = ("--async_save", *workers.NO_DROPOUT)
    outcome = workers.soak(str(tmp_path), 80, 240, victim=1, flags=flags)
    (line,) = outcome.survivor_lines
    assert line.startswith("error: another process")
    assert (outcome.kills, outcome.of_one, outcome.starts) == (1, 1, 2)
    assert outcome.same_log and outcome.same_weights
    assert outcome.runs == 1 and outcome.done
    # The same command goes on where it was: there is nothing left to do.
    again = workers.soak(str(tmp_path), 80, 240, victim=1, flags=flags)
    assert again == outcome
    # Four processes take the memory that two have written.
    assert workers.go_on_with(str(tmp_path), 4, 80, 240, flags) < 2e-5


def test_of_two_runs_in_one_folder_the_second_stops(tmp_path):
    data_dir = killing.make_data(str(tmp_path))
    folder = tmp_path / "run"
    command = killing.training_command(data_dir, str(folder), 200)
    first = killing.start(command)
    while not (folder / "losses.tsv").exists():
        assert first.poll() is None
        time.sleep(0.01)
    second = subprocess.run(
        command, cwd=killing.ROOT, capture_output=True, text=True
    )
    assert second.returncode == 1
    line = second.stderr.splitlines()[-1]
    assert line.startswith(f"error: {folder} is in use by process {first.pid} ")
    assert first.wait() == 0
    _, rows = loss_log.read(str(folder))
    assert rows[:, 0].tolist() == list(range(1, 201))
    assert not (folder / ".lock").exists()
