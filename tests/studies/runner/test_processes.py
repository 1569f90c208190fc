"""What becomes of the commands of a runner that is killed or told to stop."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from common.process import cores
from studies.runner import jobs, processes
from tests.conftest import ROOT


def test_who_is_killed_takes_the_command_along(tmp_path):
    """The next start finds no other process, and the time of both."""
    pid = tmp_path / "pid"
    code = (
        "import os, sys, time;"
        f"new = not os.path.exists({str(pid)!r});"
        f"open({str(pid)!r}, 'a').write(str(os.getpid()) + chr(10));"
        "print('up', flush=True);"
        "time.sleep(600 if new else 0)"
    )
    program = (
        "import sys; from studies.runner import jobs;"
        "print(jobs.run_job(jobs.Job('j', (('-c', sys.argv[1]),)), sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, code, str(tmp_path)]
    runner = subprocess.Popen(command, cwd=ROOT)
    while not pid.exists() or not pid.read_text().endswith("\n"):
        assert runner.poll() is None
        time.sleep(0.02)
    child = int(pid.read_text())
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    for _ in range(500):
        try:
            with open(f"/proc/{child}/stat", encoding="ascii") as f:
                if f.read().split()[2] == "Z":  # nobody waits for it
                    break
        except FileNotFoundError:
            break
        time.sleep(0.02)
    else:
        raise AssertionError("the command outlived its runner")
    attempt = json.loads((tmp_path / "j" / "attempt.json").read_text())
    attempt["before"] = 100.0  # as if an earlier start had taken so long
    (tmp_path / "j" / "attempt.json").write_text(json.dumps(attempt))
    assert subprocess.run(command, cwd=ROOT, check=True).returncode == 0
    result = json.loads((tmp_path / "j" / jobs.RESULT).read_text())
    assert result["seconds"] >= 100.0 and result["cpu_seconds"] >= 100.0
    assert len(pid.read_text().split()) == 2 and os.path.isdir(tmp_path / "j")


def test_the_time_of_a_failure_does_not_grow_where_its_folder_is_copied(
    tmp_path,
):
    """A copied log is as young as the copy."""
    failing = "import pathlib; pathlib.Path('{}').read_text()".format(
        tmp_path / "missing"
    )
    job = jobs.Job("j", (("-c", failing),))
    assert "missing" in jobs.run_job(job, str(tmp_path))["error"]
    later = time.time() + 5000.0
    os.utime(tmp_path / "j" / jobs.LOG, (later, later))
    (tmp_path / "missing").write_text("")
    result = jobs.run_job(job, str(tmp_path))
    assert 0.0 < result["seconds"] < 1000.0
    assert 0.0 < result["cpu_seconds"] < 1000.0


@pytest.mark.long
def test_the_cpu_seconds_of_a_command():
    """Of it and of what it waited for; sleep is none."""
    busy = "import time\nwhile time.process_time() < 0.4: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    both = f"{child}\n{busy}"
    slept = "import time; time.sleep(0.8)"
    found = []
    for code in (slept, busy, both):
        words = [sys.executable, "-S", "-E", "-c", code]
        status, used = processes.RUNNING.run(words)
        assert status == 0
        found.append(used)
    assert found[0] < 0.3 < found[1] < 0.7 < found[2]
    assert processes.RUNNING.run([sys.executable, "-c", "1/0"])[0] == 1


def test_the_cpu_seconds_of_a_process_that_is_gone():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert processes.cpu_seconds(process.pid) is None


@pytest.mark.parametrize(
    "workers, number, status",
    [
        (1, signal.SIGTERM, 1),
        (2, signal.SIGTERM, 1),
        (2, signal.SIGHUP, 1),
        (2, signal.SIGINT, 130),
    ],
)
def test_a_signal_lets_what_runs_save_and_begins_nothing(
    tmp_path, workers, number, status
):
    """The next start goes on; a command that ends well at SIGTERM is not done."""
    code = (
        "import os, signal, sys, time; home = sys.argv[1];"
        "os.makedirs(home, exist_ok=True); up = os.path.join(home, 'up');"
        "saved = os.path.join(home, 'saved')\n"
        "if os.path.exists(saved): sys.exit(0)\n"
        "def stop(*_):\n"
        "    open(saved, 'w').close(); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop); open(up, 'w').close()\n"
        "while True: time.sleep(0.05)"
    )
    program = (
        "import signal, sys; from studies.runner import jobs;"
        "from common.errors import UserError;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); out, code, workers = sys.argv[1:];"
        "runner = jobs.Jobs(out, workers=int(workers));"
        "listed = [jobs.Job(n, (('-S', '-c', code, runner.path('at', n)),)) "
        "for n in 'abc']\n"
        "try: runner.do_all(listed)\n"
        "except UserError as e: sys.exit(f'said: {e}')\n"
        "except KeyboardInterrupt: print('said: stopped by SIGINT'); sys.exit(130)"
    )
    if workers > len(cores.usable()):
        pytest.skip("one core")
    command = [sys.executable, "-c", program, str(tmp_path), code, str(workers)]

    def start():
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def done():
        return {n for n in "abc" if (tmp_path / n / jobs.RESULT).exists()}

    runner, names = start(), "abc"[:workers]
    while not all((tmp_path / "at" / n / "up").exists() for n in names):
        assert runner.poll() is None
        time.sleep(0.02)
    runner.send_signal(number)
    said = runner.communicate(timeout=60)[0].decode()
    assert runner.returncode == status, said
    assert f"said: stopped by {number.name}" in said
    assert ("; the same command resumes" in said) == (status == 1)
    saved = {p.parent.name for p in tmp_path.glob("at/*/saved")}
    assert saved == set(names) and done() == set()
    # The rest is never told to stop: let it find what it waits for.
    for name in "abc"[workers:]:
        (tmp_path / "at" / name).mkdir(parents=True)
        (tmp_path / "at" / name / "saved").touch()
    again = start()
    said = again.communicate(timeout=60)[0].decode()
    assert again.returncode == 0 and done() == set("abc"), said


def test_a_second_signal_ends_what_does_not_save(tmp_path):
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "open(sys.argv[1], 'w').close(); time.sleep(600)"
    )
    program = (
        "import sys; from studies.runner import jobs;"
        "from common.errors import UserError; out, code = sys.argv[1:];"
        "job = jobs.Job('a', (('-S', '-c', code, f'{out}/up'),))\n"
        "try: jobs.Jobs(out).do_all([job])\n"
        "except UserError as e: sys.exit(f'said: {e}')"
    )
    command = [sys.executable, "-c", program, str(tmp_path), code]
    runner = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    while not (tmp_path / "up").exists():
        assert runner.poll() is None
        time.sleep(0.02)
    runner.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        runner.wait(0.5)
    runner.send_signal(signal.SIGTERM)
    assert b"said: stopped by SIGTERM" in runner.communicate(timeout=60)[1]
