"""Forks end, answer and obey as the processes do that they stand for."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers import commands

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("forks")]


def test_arguments_streams_folder_and_environment(tmp_path):
    code = (
        "import json, os, sys; print(json.dumps([sys.argv, sys.stdin.read(), "
        "os.getcwd(), os.environ['A'], os.environ.get('HOME')]))"
    )
    done = subprocess.run(
        [commands.python(), "-c", code, "-x", "é"],
        cwd=tmp_path,
        env={"A": "1"},
        input="in",
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [["-c", "-x", "é"], "in", str(tmp_path), "1", None]
    assert json.loads(done.stdout) == wanted and not done.stderr
    script = tmp_path / "a.py"
    script.write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    assert commands.run(script, "b").stdout == "__main__ ['b']\n"
    done = subprocess.run(
        [commands.python(), "-"], input=b"print(1)", capture_output=True
    )
    assert done.stdout == b"1\n"
    # Other options are the real one's.
    assert commands.run("-V").stdout.split()[0] == "Python"


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import os; os.abort()", -6, ""),
    ],
)
def test_how_it_ends(code, status, text):
    done = commands.run("-c", code)
    assert done.returncode == status and done.stderr.endswith(text)


_POOL = """
import multiprocessing, os, sys, threading, time
from concurrent import futures
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
spawn = multiprocessing.get_context("spawn")
pool = futures.ProcessPoolExecutor(1, mp_context=spawn)
pool.submit(os.getpid)
pool.shutdown(wait=False)
sys.exit(4)
"""


def test_threads_and_pools_are_waited_for_after_an_exit():
    done = commands.run("-c", _POOL)
    assert done.returncode == 4
    assert done.stdout == "thread\n" and not done.stderr


def test_its_processes_are_forks_and_share_no_numbers():
    code = (
        "import random, subprocess, sys; print(random.random(), 'tensorflow' "
        "in sys.modules, flush=True); len(sys.argv) > 1 or subprocess.run("
        "[sys.executable, '-c', open(0).read(), 'x'], check=True)"
    )
    done = subprocess.run(
        [commands.python(), "-c", code],
        input="import random; print(random.random())",
        capture_output=True,
        text=True,
        check=True,
    )
    first, loaded, second = done.stdout.split()
    assert loaded == "True" and first != second
    assert sys.executable != commands.python()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_end_the_fork(number):
    code = (
        "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [commands.python(), "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        child = int(process.stdout.readline())
        assert child != process.pid
        process.send_signal(number)
        assert process.wait(10) == -number
    end = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}"):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_command_that_takes_too_long_is_ended():
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run("-c", "import time; time.sleep(60)", timeout=0.5)
