"""Jobs: done once, killed, failed; their budget; tables of seeds by hand."""

import dataclasses
import json
import sys
import types

import pytest

from common.errors import UserError
from common.process import cores
from studies.runner import jobs
from studies.runner.jobs import Job, Jobs
from studies.runner.seed_table import Column, Row, difference, table
from studies.runner.speeds import Speed


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
    silent = Job("bad", (("-c", "import os; os.kill(os.getpid(), 9)"),))
    (tmp_path / "bad" / jobs.ATTEMPT).unlink()
    line = "ended by SIGKILL (out of memory?), its last line: no message"
    assert jobs.run_job(silent, str(tmp_path)) == {"error": line}
    assert not (tmp_path / "bad" / jobs.RESULT).exists()
    # It ended well and left nothing: a line, too.
    for name, path in (("recall", str(made)), ("f1", str(tmp_path / "no"))):
        empty = Job("empty", (("-c", ""),), {"value": (path, name)})
        assert name in jobs.run_job(empty, str(tmp_path))["error"]


@pytest.mark.parametrize("text", ["NaN", "Infinity"])
def test_a_number_that_is_not_finite_is_a_failure(tmp_path, text):
    """The table of all rows ended in a stack trace."""
    made = tmp_path / "metrics.json"
    made.write_text(f'{{"f1": {text}}}')
    job = Job("a", (("-S", "-c", ""),), {"value": (str(made), "f1")})
    assert "is not finite" in jobs.run_job(job, str(tmp_path))["error"]
    assert not (tmp_path / "a" / jobs.RESULT).exists()


def test_a_clock_that_is_set_back_takes_no_seconds(tmp_path, monkeypatch):
    """A job's time was less than nothing."""
    times = iter([5000.0, 1000.0])
    monkeypatch.setattr(jobs.time, "time", lambda: next(times))
    result = jobs.run_job(Job("a", (("-c", ""),)), str(tmp_path))
    assert 0 < result["seconds"] < 1000


def test_numbers_of_the_log_and_of_columns_that_came_later(tmp_path):
    """The last line that begins with a name; what an old result lacks."""
    code = (
        "import sys; print('loss 7.5'); print('loss 2.5 nats');"
        "print('lossy 1'); open(sys.argv[1], 'w').write('{\"f1\": 0.25}')"
    )
    made = str(tmp_path / "metrics.json")
    log = str(tmp_path / "a" / jobs.LOG)
    words = ("-S", "-c", code, made)
    job = Job("a", (words,), {"loss": (log, "loss")})
    first = jobs.run_job(job, str(tmp_path))
    assert first["loss"] == 2.5 and "f1" not in first
    more = Job("a", (words,), job.reads | {"f1": (made, "f1")})
    assert jobs.run_job(more, str(tmp_path)) == first | {"f1": 0.25}
    no = Job("a", (words,), {"no": (made, "no"), "x": (made + "x", "f1")})
    assert jobs.run_job(no, str(tmp_path)) == first
    # Flags have no order; other ones are other options.
    turned = Job("a", ((*words[:2], made, code),), job.reads)
    assert jobs.run_job(turned, str(tmp_path)) == first
    other = Job("a", ((*words, "--x"),), job.reads)
    with pytest.raises(UserError, match="made with other options"):
        jobs.run_job(other, str(tmp_path))


def test_a_later_column_is_not_read_of_another_job_of_the_place(tmp_path):
    """Both write one file: the number in it was the other one's."""
    place = tmp_path / "run"
    place.mkdir()
    made, home = str(place / "eval.json"), str(tmp_path)
    code = "import sys; open(sys.argv[2], 'w').write(sys.argv[1]); print('n 3')"
    reads = {"f1": (made, "f1")}
    first, second = (
        Job(
            name,
            (("-S", "-c", code, f'{{"f1": {f1}, "loss": {f1}}}', made),),
            reads,
            place=str(place),
        )
        for name, f1 in (("one", 0.25), ("two", 0.75))
    )
    kept = jobs.run_job(first, home)
    jobs.run_job(second, home)
    later = {"loss": (made, "loss"), "n": (str(tmp_path / "one/log.txt"), "n")}
    more = dataclasses.replace(first, reads=reads | later)
    assert jobs.run_job(more, home) == kept | {"n": 3.0}


def test_what_was_begun_with_other_options_does_not_go_on(tmp_path):
    """Where nothing was saved it begins again; its own options go on."""

    def job(option):
        return Job("a", (("-c", "import sys; sys.exit('no')", option),))

    for option in ("--rate=1", "--rate=2"):
        said = jobs.run_job(job(option), str(tmp_path))
        assert said == {"error": "no"}
    saved = tmp_path / "a" / "run" / "seed_0"
    saved.mkdir(parents=True)
    (saved / "model.ckpt-5.index").write_bytes(b"")
    kept = (tmp_path / "a" / jobs.ATTEMPT).read_text()
    with pytest.raises(UserError, match="made with other options"):
        jobs.run_job(job("--rate=1"), str(tmp_path))
    assert (tmp_path / "a" / jobs.ATTEMPT).read_text() == kept
    assert jobs.run_job(job("--rate=2"), str(tmp_path)) == {"error": "no"}


def test_what_others_made_is_not_taken_for_it(tmp_path):
    """Records were made anew, and runs of the old ones stayed in the table."""
    made = f"--output_dir={tmp_path}/records/data"

    def runner(*flags):
        jobs_here = Jobs(str(tmp_path), lambda _: None)
        text = ("-c", "", f"--output_dir={tmp_path}/text")
        words = ("-c", "", f"--input_glob={tmp_path}/text/*", made, *flags)
        jobs_here.makers += [text, words, ("-c", "", "--output_dir=/else")]
        return jobs_here

    read = ("-c", "", f"--data_dir={tmp_path}/records/data")
    job, other = Job("a", (read,)), Job("b", (("-c", ""),))
    assert "error" not in runner().do(job) and runner().do(other)
    attempt = json.loads((tmp_path / "a" / jobs.ATTEMPT).read_text())
    assert len(attempt["inputs"]) == 2  # the records' text, too
    assert runner().do(job) and runner("--seq_len=9").do(other)
    for do in (runner("--seq_len=9").do, runner("--seq_len=9").read):
        with pytest.raises(UserError, match="other options of what it reads;"):
            do(job)
    # What an earlier version ran does not say what it read.
    del attempt["inputs"]
    (tmp_path / "a" / jobs.ATTEMPT).write_text(json.dumps(attempt))
    assert runner("--seq_len=9").do(job)


def test_parts_follow_each_other(tmp_path, monkeypatch):
    """The least first number first; later parts are read before."""
    done = tmp_path / "late"
    done.mkdir()
    (done / jobs.RESULT).write_text('{"f1": 3}')
    asked = []

    def run_job(job, folder, cores=None):
        asked.append(job.name)
        return {"seconds": 1.0, "f1": 3}

    monkeypatch.setattr(jobs, "run_job", run_job)
    turns = {"late": (2, 0), "b": (0, 1), "a": (0, -1), "mid": (1, 5)}
    listed = [Job(name, (), turn=turn) for name, turn in turns.items()]
    runner = Jobs(str(tmp_path), lambda _: None)
    seen = [dict(runner.results) for _ in runner.do_in_turn(listed)]
    assert asked == ["late", "a", "b", "mid", "late"]  # the first is a look
    errors = [{k for k, v in of.items() if "error" in v} for of in seen]
    assert errors == [{"mid"}, set(), set()] and "late" in seen[0]
    reader = Jobs(str(tmp_path), lambda _: None, only_read=True)
    assert len(list(reader.do_in_turn(listed))) == 1
    assert list(reader.do_in_turn([])) == [None]


def test_budget_and_speed(tmp_path, monkeypatch):
    def run_job(job, folder, cores):
        if job.commands[0][0] == "none":
            return {"error": "no number"}
        # 2 seconds of start, half a second per step.
        return {"seconds": 2 + 0.5 * int(job.commands[0][0])}

    monkeypatch.setattr(jobs, "run_job", run_job)
    lines = []
    runner = Jobs(str(tmp_path), lines.append)
    timed = {"lm": lambda home, n: ((str(n),),)}
    timed["wrong"] = lambda home, n: (("none",),)
    speeds = runner.speeds(timed, 10)
    speed = Speed(pytest.approx(2.0), pytest.approx(0.5))
    assert speeds == {"lm": speed} and speeds["lm"].pace == speeds["lm"].step
    assert (
        sum(
            runner.results.pop(f"speed/wrong-{n}")["error"] == "no number"
            for n in (10, 30)
        )
        == 2
    )
    assert set(runner.results) == {"speed/lm-10", "speed/lm-30"}
    done = tmp_path / "one"
    done.mkdir()
    (done / jobs.RESULT).write_text("{}")
    listed = [Job(n, (), kind="lm", steps=7196) for n in ("one", "two", "x")]
    listed.append(Job("odd", (), kind="other", steps=9))
    assert runner.budget(listed, speeds) == (
        "4 jobs, 1 done: 2.00 hours to go by measured steps, and 1 job whose "
        "speed is not known"
    )
    assert runner.hours() == pytest.approx((7 + 17) / 3600)
    assert runner.budget(listed, {}) == "4 jobs, 1 done"


def test_workers_share_the_cores_and_a_child_waits(tmp_path):
    """Two at a time, each on its half; `a/b` after `a`, and fails with it."""
    usable = cores.usable()
    if len(usable) < 2:
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
    share = len(usable) // 2
    halves = [usable[:share], usable[share : 2 * share]]
    assert sorted([found["a"]["cores"], found["c"]["cores"]]) == halves
    assert found["a+b"]["at"] > found["c"]["at"]
    with pytest.raises(UserError, match=f"1 to .*{len(usable)}, found 0"):
        Jobs(str(tmp_path), workers=0)


def test_jobs_of_one_place_follow_each_other(tmp_path, monkeypatch):
    """Side by side each read the file that the other had written."""
    monkeypatch.setattr(cores, "usable", lambda: [0, 0])
    made = str(tmp_path / "eval.json")
    code = (
        "import sys, time; own = sys.argv[1]; f = open(sys.argv[2], 'w');"
        "f.write('{\"f1\": ' + own + '}'); f.close(); time.sleep(0.3)"
    )
    listed = [
        Job(
            f"a-0/{n}",
            (("-S", "-c", code, str(n), made),),
            {"f1": (made, "f1")},
            place=str(tmp_path),
        )
        for n in range(3)
    ]
    runner = Jobs(str(tmp_path / "out"), lambda _: None, workers=2)
    runner.do_all(listed)
    assert [runner.results[f"a-0/{n}"]["f1"] for n in range(3)] == [0, 1, 2]


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


def test_workers_print_whole_lines(tmp_path, monkeypatch):
    """A line is one write: two of them do not mix."""
    written = []
    stream = types.SimpleNamespace(write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stdout", stream)
    Jobs(str(tmp_path))._say("a: loss 3")
    assert [text for text in written if text] == ["a: loss 3\n"]
