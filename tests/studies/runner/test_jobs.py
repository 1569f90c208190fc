"""Jobs: done once, killed, failed; their budget; tables of seeds by hand."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from common.errors import UserError
from studies.runner import jobs
from studies.runner.jobs import Job, Jobs, Speed
from studies.runner.seed_table import Column, Row, difference, table
from tests.conftest import ROOT


def test_a_job_is_done_once_and_a_failure_is_a_line(tmp_path):
    made = tmp_path / "metrics.jsonl"
    count = tmp_path / "count"
    code = (
        f"open({str(count)!r}, 'a').write('x');"
        f"open({str(made)!r}, 'w').write('{{\"f1\": 1}}\\n{{\"f1\": 0.5}}\\n')"
    )
    job = Job("a/b", (("-c", code),), {"value": (str(made), "f1")})
    first = jobs.run_job(job, str(tmp_path))
    assert first["value"] == 0.5 and first["seconds"] > 0
    assert jobs.run_job(job, str(tmp_path)) == first
    assert count.read_text() == "x"
    bad = Job("bad", (("-c", "import sys; sys.exit('no such thing')"),))
    assert jobs.run_job(bad, str(tmp_path)) == {"error": "no such thing"}
    assert not (tmp_path / "bad" / jobs.RESULT).exists()
    # It ended well and left nothing: a line, too.
    for name, path in (("recall", str(made)), ("f1", str(tmp_path / "no"))):
        empty = Job("empty", (("-c", ""),), {"value": (path, name)})
        assert name in jobs.run_job(empty, str(tmp_path))["error"]


def test_budget_and_speed(tmp_path, monkeypatch):
    def run_job(job, folder, cores):
        # 2 seconds of start, half a second per step.
        return {"seconds": 2 + 0.5 * int(job.commands[0][0])}

    monkeypatch.setattr(jobs, "run_job", run_job)
    lines = []
    runner = Jobs(str(tmp_path), lines.append)
    speed = runner.speed("lm", lambda home, n: ((str(n),),), 10)
    assert speed == Speed(pytest.approx(2.0), pytest.approx(0.5))
    assert set(runner.results) == {"speed/lm-10", "speed/lm-30"}
    done = tmp_path / "one"
    done.mkdir()
    (done / jobs.RESULT).write_text("{}")
    listed = [Job(n, (), kind="lm", steps=7196) for n in ("one", "two", "x")]
    listed.append(Job("odd", (), kind="other", steps=9))
    assert runner.budget(listed, {"lm": speed}) == (
        "4 jobs, 1 done: 2.00 hours to go by measured steps, and 1 jobs whose "
        "speed is not known"
    )
    assert runner.hours() == pytest.approx((7 + 17) / 3600)
    assert jobs.as_flags({"a": 1, "b": True, "c": False}) == (
        *("--a=1", "--b", "--noc"),
    )


def test_workers_share_the_cores_and_a_child_waits(tmp_path):
    """Two at a time, each on its half; `a/b` after `a`, and fails with it."""
    cores = jobs._cores()
    if len(cores) < 2:
        pytest.skip("one core")
    places = tmp_path / "places"
    # Each waits for another one to be there: alone it would fail.
    code = (
        "import json, os, sys, time; own, there = sys.argv[1:];"
        f"home = {str(places)!r}; os.makedirs(home, exist_ok=True);"
        "value = dict(cores=sorted(os.sched_getaffinity(0)), at=time.time());"
        "open(os.path.join(home, own), 'w').write(json.dumps(value));"
        "end = time.time() + 30\n"
        "while there and not os.path.exists(os.path.join(home, there)):\n"
        "    if time.time() > end: sys.exit('alone')\n"
        "    time.sleep(0.01)"
    )

    def job(name, there=""):
        own = name.replace("/", "+")
        return Job(name, (("-S", "-c", code, own, there),))

    bad = Job("bad", (("-S", "-c", "import sys; sys.exit('no')"),))
    lines = []
    runner = Jobs(str(tmp_path / "out"), lines.append, workers=2)
    runner.do_all([job("a/b"), job("a", "c"), bad, job("bad/d"), job("c", "a")])
    assert {k: v.get("error") for k, v in runner.results.items()} == {
        **{"a": None, "c": None, "a/b": None},
        **{"bad": "no", "bad/d": "bad: no"},
    }
    found = {p.name: json.loads(p.read_text()) for p in places.iterdir()}
    assert set(found) == {"a", "c", "a+b"}
    share = len(cores) // 2
    halves = [cores[:share], cores[share : 2 * share]]
    assert sorted([found["a"]["cores"], found["c"]["cores"]]) == halves
    assert found["a+b"]["at"] > found["c"]["at"]
    with pytest.raises(UserError, match=f"1 to .*{len(cores)}, found 0"):
        Jobs(str(tmp_path), workers=0)


def test_what_was_never_started_has_not_failed(tmp_path):
    """Neither it nor what would go on from it."""
    failed = Job("bad", (("-S", "-c", "import sys; sys.exit('no')"),))
    listed = [Job(n, ()) for n in ("a", "a/b", "a/b/c", "bad/d")]
    Jobs(str(tmp_path), lambda _: None).do(failed)
    reader = Jobs(str(tmp_path), lambda _: None, only_read=True)
    reader.do_all([failed, *listed])
    assert {k: v["error"] for k, v in reader.results.items()} == {
        **dict.fromkeys(("a", "a/b", "a/b/c"), "not run"),
        **{"bad": "no", "bad/d": "bad: no"},
    }
    row = Row("r")
    for seed, name in enumerate(("a", "bad", "a")):
        row.add("f1", str(seed), reader.results[name], "f1")
    assert row.errors == {"f1": "no"}


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
    assert result["seconds"] >= 100.0
    assert len(pid.read_text().split()) == 2 and os.path.isdir(tmp_path / "j")


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_lets_what_runs_save_and_begins_nothing(tmp_path, workers):
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
        "import sys; from studies.runner import jobs; from common.errors import "
        "UserError; out, code, workers = sys.argv[1:];"
        "runner = jobs.Jobs(out, workers=int(workers));"
        "listed = [jobs.Job(n, (('-S', '-c', code, runner.path('at', n)),)) "
        "for n in 'abc']\n"
        "try: runner.do_all(listed)\n"
        "except UserError as e: sys.exit(f'said: {e}')"
    )
    if workers > len(jobs._cores()):
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
    runner.send_signal(signal.SIGTERM)
    said = runner.communicate(timeout=60)[0].decode()
    assert runner.returncode == 1, said
    assert "said: stopped by SIGTERM; the same command resumes" in said
    saved = {p.parent.name for p in tmp_path.glob("at/*/saved")}
    assert saved == set(names) and done() == set()
    # The rest is never told to stop: let it find what it waits for.
    for name in "abc"[workers:]:
        (tmp_path / "at" / name).mkdir(parents=True)
        (tmp_path / "at" / name / "saved").touch()
    again = start()
    said = again.communicate(timeout=60)[0].decode()
    assert again.returncode == 0 and done() == set("abc"), said


def _rows():
    base = Row("base", rate=0.166)
    other = Row("other", rate=0.1665, paper={"f1": 81.3})
    apart = Row("apart", rate=0.15)
    for row, shift in ((base, 0.0), (other, 0.1), (apart, 0.3)):
        for seed, value in enumerate((0.5, 0.2, 0.3)):
            row.add("f1", str(seed), {"f1": value + shift * (seed + 1)}, "f1")
    return base, other, apart


def test_a_table_by_hand():
    base, other, apart = _rows()
    found = difference(other, base, "f1")
    assert found.mean == pytest.approx(0.2)  # of 0.1, 0.2, 0.3
    assert (found.low, found.high) == (pytest.approx(0.1), pytest.approx(0.3))
    # Seeds are paired by their names, whatever order they came in.
    other.values["f1"] = dict(reversed(other.values["f1"].items()))
    assert difference(other, base, "f1").mean == pytest.approx(0.2)
    failed = Row("failed", rate=0.166)
    failed.add("f1", "0", {"error": "no room"}, "f1")
    base.add("f1", "9", {"error": "killed"}, "f1")
    text = table([base, other, apart, failed], [Column("f1", "F1")], "base")
    assert text.splitlines() == [
        "| row | targets | F1 |",
        "| --- | --- | --- |",
        "| base | 16.60% | 0.300 (0.333 ± 0.153, 3); failed: killed |",
        "| other | 16.65% | 0.600 (0.533 ± 0.115, 3) |",
        "| less base |  | +0.200 [+0.100, +0.300] |",
        "| *the paper* |  | *81.3* |",
        "| apart | 15.00% | **0.800** (0.933 ± 0.231, 3) |",
        "| less base |  | other target rate |",
        "| failed | 16.60% | failed: no room |",
    ]


def test_fewer_may_be_better_and_one_seed_has_no_interval():
    base, other, _ = _rows()
    for row in (base, other):
        row.values["f1"] = {"0": row.values["f1"]["0"]}
        row.rate = None
    text = table([base, other], [Column("f1", higher=False)], "base")
    assert "| base | **0.500** (0.500 ± 0.000, 1) |" in text
    assert "| less base | +0.100 |" in text


def test_tunings_of_one_pretraining_are_one_pair():
    row, base = Row("row"), Row("base")
    for seed, apart in (("0.0", 1.0), ("0.1", 5.0), ("1.0", 7.0)):
        base.add("f1", seed, {"f1": 2.0}, "f1")
        row.add("f1", seed, {"f1": 2.0 + apart}, "f1")
    base.add("f1", "1.1", {"f1": 90.0}, "f1")  # the row has no such tuning
    found = difference(row, base, "f1")
    assert (found.queries, found.mean) == (2, pytest.approx(5.0))
    assert (found.low, found.high) == (pytest.approx(3.0), pytest.approx(7.0))
