"""Groups of processes that are killed: nobody stays, one driver a folder."""

import os
import signal
import subprocess
import sys

import pytest

from common import files, locks
from common.errors import UserError
from tools.soak import killing, starting, workers


def test_when_one_fails_the_others_are_ended(tmp_path):
    sleeper, failing = tmp_path / "sleeper.log", tmp_path / "failing.log"
    code = "import sys; print('up'); sys.exit('the disk is full')"
    with (
        pytest.raises(RuntimeError) as caught,
        starting.Group() as group,
    ):
        group.start(["-c", "import time; time.sleep(600)"], str(sleeper))
        group.start(["-c", code], str(failing))
        group.finish(120)
    message = f"process 1 ended with 1: see {failing}: the disk is full"
    assert str(caught.value) == message
    statuses = [process.returncode for process in group.processes]
    assert statuses == [-signal.SIGKILL, 1]


class Late:
    """Ends with status 1 after one look."""

    def __init__(self):
        self._answers = [None]

    def poll(self):
        return self._answers.pop() if self._answers else 1

    def send_signal(self, number):
        pass

    def wait(self):
        return 1


def test_one_that_fails_between_two_looks_is_reported(tmp_path):
    log = tmp_path / "late.log"
    log.write_text("late\n")
    group = starting.Group()
    group.processes, group.logs = [Late()], [str(log)]
    with pytest.raises(RuntimeError, match="process 0 ended with 1: .*: late"):
        group.finish(5)


def test_waiting_has_an_end(tmp_path):
    with (
        pytest.raises(subprocess.TimeoutExpired),
        starting.Group() as group,
    ):
        group.start(["-c", "import time; time.sleep(600)"], str(tmp_path / "a"))
        group.finish(0.05)
    assert group.processes[0].returncode == -signal.SIGKILL


def test_a_killed_driver_takes_its_forks_along(tmp_path):
    code = (
        "import os, time; from tools.soak import starting;"
        "run = lambda: (print(os.getpid(), flush=True), time.sleep(600));"
        "starting.Forked(run).wait()"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=killing.ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(driver.stdout.readline()) != driver.pid
    driver.kill()
    # To the end of its output, which the fork has open as long as it lives.
    assert driver.communicate(timeout=120) == ("", None)


def test_a_second_driver_and_other_options_are_refused(tmp_path):
    command = [sys.executable, "-m", "tools.soak.workers"]
    command.append(f"--output_dir={tmp_path}")
    with locks.held(str(tmp_path)):
        second = subprocess.run(
            command, cwd=killing.ROOT, capture_output=True, text=True
        )
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    wanted = f"error: {tmp_path} is in use by process {os.getpid()} "
    assert line.startswith(wanted)
    files.write_json(
        str(tmp_path / "soak.json"),
        {"steps": 80, "count": 2, "seed": 1, "victim": None, "flags": []},
    )
    with pytest.raises(UserError, match="a soak with count 2, now it is 4"):
        workers.soak(str(tmp_path), 80, 240, 4)
    assert sorted(os.listdir(tmp_path)) == ["soak.json"]


def test_going_on_needs_two_saves(tmp_path):
    whole = tmp_path / "undisturbed"
    files.make_directory(str(tmp_path / "records"))
    files.write_text(str(tmp_path / "records" / "manifest.json"), "{}")
    files.make_directory(str(whole))
    files.write_text(
        str(whole / "checkpoint"),
        'model_checkpoint_path: "model.ckpt-10"\n'
        'all_model_checkpoint_paths: "model.ckpt-10"\n',
    )
    with pytest.raises(UserError, match="train more than 10 steps"):
        workers.go_on_with(str(tmp_path), 4, 10, 240)
