"""One pool: order, errors, and no worker that outlives its parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from common.errors import UserError
from common.process import workers


def double(state, chunk):
    return [state * x for x in chunk]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_ordered_results_come_in_the_order_of_the_items(num_workers):
    chunks = workers.split_chunks(list(range(10)), 3)
    assert chunks[-1] == [9]
    parts = workers.run(
        workers.with_state,
        (double, int, "2"),
        chunks,
        num_workers,
        ordered=True,
    )
    assert sum(parts, []) == [2 * x for x in range(10)]


@pytest.mark.long
@pytest.mark.parametrize(
    "use",
    [
        "pool = workers.open_pool(1, int); close()",
        "found = workers.run(operator.methodcaller, ('bit_length',), [1, 2], 2)"
        "; next(found); close(); list(found)",
    ],
)
def test_a_closed_terminal_does_not_end_the_tracker_of_semaphores(use):
    """Its end printed a stack trace for each of them."""
    code = (
        "import operator, os, signal, time\n"
        "from multiprocessing import resource_tracker\n"
        "from common.process import workers\n"
        "def close():\n"
        "    number = resource_tracker._resource_tracker._pid\n"
        "    os.kill(number, signal.SIGHUP)\n"
        "    time.sleep(0.3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + use],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_items_start_nothing():
    assert list(workers.run(None, (), [], 2)) == []


def end(state, item):
    os._exit(9)


def test_a_killed_worker_is_one_line():
    with pytest.raises(UserError, match="a worker process was killed"):
        list(workers.run(workers.with_state, (end, int), [1, 2], 2))


SLEEPER = """
import sys, time
from common.process import workers

def sleep(state, chunk):
    print("up", flush=True)
    time.sleep(60)

if __name__ == "__main__":
    list(workers.run(workers.with_state, (sleep, int), [1, 2], 2))
"""


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    ) as parent:
        assert parent.stdout.readline() == b"up\n"
        children = task_children(parent.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 20
        while any(map(alive, children)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert len(children) >= 2
        assert not any(map(alive, children))


STOPPED = """
import signal, sys, time
from common.process import workers

class Sleep:
    def __init__(self, seconds):
        time.sleep(float(seconds))

    def __call__(self, item):
        print("up", flush=True)
        try:
            time.sleep(60)
        finally:
            print("cleaned", flush=True)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("began", flush=True)
    try:
        list(workers.run(Sleep, (sys.argv[1],), [1, 2, 3, 4, 5, 6], 2))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True], ids=["parent", "terminal"])
@pytest.mark.parametrize("begun", [False, True], ids=["starting", "working"])
def test_ctrl_c_ends_what_the_workers_do(tmp_path, group, begun):
    """In a few seconds, without a stack trace of a worker, and cleaned up."""
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    with subprocess.Popen(
        [sys.executable, str(script), "0" if begun else "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.getcwd()},
    ) as parent:
        for line in ["began", "up", "up"] if begun else ["began"]:
            assert parent.stdout.readline() == f"{line}\n"
        if not begun:
            time.sleep(0.5)
        start = time.monotonic()
        if group:
            os.killpg(parent.pid, signal.SIGINT)
        else:
            parent.send_signal(signal.SIGINT)
        said, errors = parent.communicate(timeout=50)
        assert time.monotonic() - start < 40
    assert errors == "" and said.endswith("interrupted\n")
    assert said.count("cleaned") == (2 if begun else 0)


def task_children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(x) for x in f.read().split()]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
