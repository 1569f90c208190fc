"""The runner of studies with stubs for its commands: killed, failing, by hand."""

import json
import re
import shutil
import signal
import statistics
import subprocess
import sys

import pytest

from common import locks
from common.errors import UserError
from studies.kinds.registry import load
from studies.runner import (
    study,
    study_figure,
    study_file,
    study_records,
    study_report,
)
from studies.runner.speeds import Speed
from tests.conftest import ROOT
from tests.helpers import commands
from tests.helpers.runs import builds
from tests.studies.toy_studies import OPTIONS, default_options


@pytest.mark.slow
def test_the_table_by_hand(options, tmp_path):
    """Medians, pairs and failures from `results.json`, without the code."""
    folder = tmp_path / "out"
    given = load(str(options), {})
    lines = []
    runner = study.Study(str(folder), given)
    runner._say = lines.append
    rows = runner.run()
    paths = runner.write(rows)
    assert [p.rsplit("/", 1)[1] for p in paths] == [
        *("table.md", "results.json", "table.tsv"),
        *("figure5.png", "figure5.svg"),
    ]
    # Equal flags share records; the budget comes before the first row.
    assert len({n for n in runner.results if n.startswith("records-")}) == 2
    (budget,) = [i for i, x in enumerate(lines) if "hours to go" in x]
    assert lines[budget].startswith("42 jobs, 0 done")
    assert budget < min(i for i, x in enumerate(lines) if x.startswith("a-0"))
    order = [x.split(":")[0] for x in lines if re.match(r"[abc]-\d", x)]
    assert order[:4] == ["a-0", "b-0", "c-0", "a-0/one-0"]
    assert order.index("b-1") > order.index("b-0/two-2")

    found = json.loads((folder / "results.json").read_text())
    table = (folder / "table.md").read_text()
    of = {k: v["of"] for k, v in found.items()}
    assert sorted(of["a first"]["one"]) == [
        f"{p}.{f}" for p in range(2) for f in range(3)
    ]
    assert sorted(of["a first"]["loss"]) == ["0", "1"]
    a, b = (of[n]["two"] for n in ("a first", "b second"))
    assert all(a[seed] != b[seed] for seed in a)
    for values in (a, b):
        median = f"{statistics.median(values.values()):.1f}"
        mean = f"{statistics.fmean(values.values()):.1f}"
        sd = f"{statistics.stdev(values.values()):.1f}"
        cell = rf"\**{median}\** \({mean} ± {sd}, 6\)"
        assert re.search(cell, table), (cell, table)
    # A pretraining is one pair, whatever was tuned from it.
    pairs = [
        statistics.fmean(a[f"{p}.{f}"] - b[f"{p}.{f}"] for f in range(3))
        for p in range(2)
    ]
    low, high = min(pairs), max(pairs)
    apart = f"{statistics.fmean(pairs):+.1f} [{low:+.1f}, {high:+.1f}]"
    assert f"| {apart} |" in table
    assert "*0.5*" in table and "failed: no such objective" in table
    assert found["c wrong"]["errors"]["two"].startswith("c-0: no such")
    assert "two, c less b: failed: c-0: no such objective" in table
    assert re.search(
        r"one, a less b: .* 2 pairs, p = [^:]*: (holds|not|contra)", table
    )
    # No tuning has the seed of another one.
    for p in range(2):
        for f in range(3):
            log = folder / f"b-{p}" / f"one-{f}" / "attempt.json"
            (words,) = json.loads(log.read_text())["commands"]
            assert f"--seed={3 * p + f}" in words
    # What a row drops it is not given, and the others are.
    log = json.loads((folder / "a-0" / "attempt.json").read_text())
    assert not any("only_b" in w for w in log["commands"][0])
    log = json.loads((folder / "b-0" / "attempt.json").read_text())
    assert "--only_b=1" in log["commands"][0]
    # The picture has the differences to the first row.
    apart = study_figure.points(given, rows)
    assert set(apart["two"]) == {"b second"}
    # Nothing is run twice, and nothing at all with --table.
    again = study.Study(str(folder), given, only_read=True)
    again._say = lines.append
    assert again.run() == rows
    other = tmp_path / "other.toml"
    other.write_text(
        options.read_text().replace("train_steps = 9", "train_steps = 8")
    )
    with pytest.raises(UserError, match="made with other options"):
        study.Study(str(folder), load(str(other), {}), True).run()


@pytest.mark.slow
def test_a_runner_that_is_killed_twice_ends_with_the_same_table(
    options, tmp_path, monkeypatch
):
    def start(folder, **more):
        command = [sys.executable, "-m", "studies.run"]
        command += [f"--output_dir={tmp_path / folder}", f"--study={options}"]
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, **more
        )

    monkeypatch.setenv("STUB_SECONDS", "0.02")
    done, _ = (whole := start("whole")).communicate()
    assert whole.returncode == 0 and "0 done" in done
    for stop, seeds in (("a-0/one-1", 0), ("b-1", 1)):
        runner = start("killed")
        for line in runner.stdout:
            if line.startswith(f"{stop}:"):
                break
        runner.send_signal(signal.SIGKILL)
        runner.communicate()
        # There is a table of the seeds that are whole.
        path = tmp_path / "killed" / "results.json"
        assert path.exists() == bool(seeds)
        if seeds:
            first = json.loads(path.read_text())["a first"]["of"]
            assert sorted(first["one"]) == ["0.0", "0.1", "0.2"]
    last, _ = (runner := start("killed")).communicate()
    assert runner.returncode == 0 and ", 0 done" not in last
    for name in ("table.md", "table.tsv"):
        wanted, found = (
            (tmp_path / folder / name).read_bytes()
            for folder in ("whole", "killed")
        )
        assert wanted == found


@pytest.mark.slow
def test_a_table_beside_a_run(options, tmp_path):
    """Nothing is refused, run or written; what was not begun has not failed."""
    folder = tmp_path / "out"
    given = load(str(options), {})

    def look(*more):
        return commands.run(
            *("-m", "studies.run", "--table"),
            *(f"--output_dir={folder}", f"--study={options}", *more),
        )

    with locks.held(str(folder)):
        empty = study.Study(str(folder), given, only_read=True)
        for row in empty.run():
            assert set(row.errors.values()) == {"not run"} and not row.values
        # One pretraining failed, one is there, nothing was tuned from it.
        runner = study.Study(str(folder), given)
        records = {row.key: runner._records(row) for row in given.rows}
        for row in given.rows[1:]:
            runner.do(runner._jobs(row, records[row.key], {})[0])
        before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
        found = look()
        assert found.returncode == 0, found.stderr
        cells = {
            line.split(" | ")[0]: line.strip("| ").split(" | ")[1:]
            for line in found.stdout.splitlines()
        }
        assert cells["| a first"] == ["not run"] * 3
        assert re.match(r"0\.\d+ ", cells["| b second"][0])
        assert cells["| b second"][1:] == ["not run"] * 2
        why = "no such objective"
        assert cells["| c wrong"] == [
            f"failed: {why}",
            *[f"failed: c-0: {why}"] * 2,
        ]
        assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before
        # What would be put there needs the folder.
        known = look(f"--known={tmp_path / 'jobs.json'}")
        assert known.returncode == 1 and "in use by" in known.stderr
    assert look().returncode == 0
    assert (folder / "table.md").read_text() in look().stdout


def test_a_row_without_a_task_has_no_job_and_an_empty_cell(options, tmp_path):
    text = options.read_text().replace('columns = ["one"]', 'columns = ["two"]')
    changed = text.replace(
        '{ name = "a first"', '{ name = "a first", without = ["one"]'
    )
    assert changed != text
    options.write_text(changed)
    runner = study.Study(
        str(tmp_path / "out"), load(str(options), {}), only_read=True
    )
    jobs = {
        job.name for job in runner._jobs(runner.options.rows[0], ("", ""), {})
    }
    assert {n for n in jobs if n.startswith("a-1/")} == {
        f"a-1/two-{seed}" for seed in range(3)
    }
    rows = runner.run()
    assert "one" not in rows[0].errors and rows[1].errors["one"] == "not run"
    cells = {
        line.split(" | ")[0]: line.split(" | ")[1:4]
        for line in runner.text(rows).splitlines()
    }
    assert cells["| a first"] == ["not run", "", "not run |"]
    assert "two, a less b: not run" in runner.text(rows)
    left = runner.options.chosen(["two"])
    assert not left.rows[0].without


def test_an_evaluation_in_place_is_one_per_pretraining(options, tmp_path):
    """Whatever other tasks have: it has no seed, and all would be equal."""
    text = options.read_text()
    changed = text.replace("train_steps = 4 }", "in_place = true }")
    assert changed != text
    options.write_text(changed)
    runner = study.Study(str(tmp_path / "out"), load(str(options), {}))
    row, column = runner.options.rows[0], runner.options.columns[2]
    listed = runner._jobs(row, ("", ""), {})
    places = {job.name: job.place for job in listed if job.place}
    assert places == {  # one job at a time works there
        f"a-{n}/two-0": runner.path(f"a-{n}", "run") for n in range(2)
    }
    jobs = {job.name for job in listed}
    assert {n for n in jobs if "/two" in n} == {"a-0/two-0", "a-1/two-0"}
    assert len({n for n in jobs if "/one" in n}) == 6
    for name in jobs:
        runner.results[name] = {column.name: 0.5}
    assert runner._results(row, column, "") == {
        "0.0": {column.name: 50.0},
        "1.0": {column.name: 50.0},
    }


@pytest.mark.long
def test_runs_of_other_records_are_refused(options, tmp_path):
    """Records were made again as told, and the old runs counted as theirs."""
    text = options.read_text().replace("seeds = 2", "seeds = 1")
    text = text.replace("tune_seeds = 3", "tune_seeds = 1")
    folder = tmp_path / "out"

    def run(text):
        options.write_text(text)
        runner = study.Study(str(folder), load(str(options), {}))
        runner._say = lambda line: None
        return runner.run()

    rows = run(text)
    assert run(text) == rows
    other = text.replace("records = { command", "records = { x = 9, command", 1)
    with pytest.raises(UserError, match="records-.* made with other options;"):
        run(other)
    for home in folder.glob("records-*"):
        shutil.rmtree(home)
    with pytest.raises(UserError, match="other options of what it reads; rem"):
        run(other)


@pytest.mark.slow
def test_seeds_of_another_folder_are_not_run_again(options, tmp_path):
    """Two seeds here, the third there: the table of all three."""
    text = options.read_text()

    def run(folder, seeds, *more):
        options.write_text(text.replace("seeds = 2", f"seeds = {seeds}"))
        command = [sys.executable, "-m", "studies.run", *more]
        command += [f"--output_dir={tmp_path / folder}", f"--study={options}"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        logs = (tmp_path / folder).glob("?-?/**/log.txt")
        return {str(p.parent.relative_to(tmp_path / folder)) for p in logs}

    first, whole = run("first", 2), run("whole", 3)
    known = f"--known={tmp_path / 'first' / 'jobs.json'}"
    # The row that fails is tried again, as it is in one folder.
    again = {"c-0", "c-1"}
    assert run("second", 3, known) == whole - first | again
    for name in ("table.md", "table.tsv"):
        wanted = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "second" / name).read_bytes() == wanted


def test_rows_of_equal_seconds_are_timed_by_themselves(options, tmp_path):
    """Layers are no part of a kind: a larger row took as many steps."""
    wrong = 'pretrain = { objective = "wrong" }'
    text = options.read_text()
    right = 'seconds_of = "b", pretrain = { n_layer = 2 }'
    options.write_text(text.replace(wrong, right))
    runner = study.Study(str(tmp_path), load(str(options), {}))
    kinds = [runner._kind(row) for row in runner.options.rows]
    assert kinds == ["pretrain-xlnet", "pretrain-xlnet-b", "pretrain-xlnet-c"]
    # Those of the project that have the same flags still share one.
    path = study_file.path_of("encoders")
    places = dict.fromkeys(("out", "data", "text"), "x")
    encoders = study.Study(str(tmp_path), load(path, places))
    found = {encoders._kind(row) for row in encoders.options.rows}
    assert len(found) == 4 and not any("seconds" in kind for kind in found)
    speeds = {kinds[1]: Speed(0.0, 0.1), kinds[2]: Speed(0.0, 0.3)}
    row = runner.options.rows[2]
    assert runner._steps(row, speeds) == {"train_steps": 3}


def test_a_row_without_records_needs_no_timing(options, tmp_path):
    """It stopped the study: equal seconds of it could not be measured."""
    text = options.read_text().replace(
        'pretrain = { objective = "wrong" }', 'seconds_of = "b"'
    )
    options.write_text(text)
    runner = study.Study(str(tmp_path), load(str(options), {}), only_read=True)
    row = runner.options.rows[2]
    assert runner._jobs(row, ("", "records: no text"), {}) == []
    assert runner.results["c-1"] == {"error": "records: no text"}


def test_what_a_row_drops_is_none_of_its_flags(options):
    text = options.read_text().replace("only_b = 1", "mem_len = 0")
    options.write_text(text.replace('["only_b"]', '["mem_len"]'))
    given = load(str(options), {})
    flags = [given.flags_of(row) for row in given.rows]
    assert ["mem_len" in of for of in flags] == [False, True, True]


def timings(given, tmp_path, records, fails=()):
    """Kind -> steps -> the command that is timed; `fails` have no speed."""
    runner = study.Study(str(tmp_path / "out"), given)
    asked = {}

    def speeds(commands, steps):
        for kind, of in commands.items():
            for n in (steps, 3 * steps):
                (words,) = of(runner.path(f"speed/{kind}-{n}", "run"), n)
                asked.setdefault(kind, {})[n] = words
        return {k: Speed(1.0, 0.5) for k in commands if k not in fails}

    runner.speeds = speeds
    return asked, runner._speeds(records)


def test_what_is_timed_is_accepted_by_its_command(tmp_path, parsed):
    given = default_options()
    records = {row.key: ("data", "") for row in given.rows}
    asked, speeds = timings(given, tmp_path, records)
    assert set(asked) == set(speeds)
    for words in asked.values():
        assert list(words) == [20, 60]
        for steps, command in words.items():
            run = parsed(command)
            assert run.train_steps == steps and not run.optimizer.warmup_steps
    # What costs differently is timed by itself.
    runner = study.Study(str(tmp_path / "out"), given)
    kinds = {}
    for row in given.rows:
        kinds.setdefault(runner._kind(row), []).append(row.key)
    assert sorted(kinds.values()) == sorted(
        [["1"], ["2"], ["3", "4", "6", "7", "9", "10", "11", "0"], ["5", "5b"]]
        + [["8"], ["12"]]
    )


def test_a_warm_up_is_changed_only_where_it_is_given(options, tmp_path):
    given = load(str(options), {})
    records = {row.key: ("data", "") for row in given.rows}
    asked, _ = timings(given, tmp_path, records)
    words = [w for of in asked.values() for c in of.values() for w in c]
    assert not any("warmup" in w for w in words)


def test_speeds_that_cannot_be_measured_are_left_out(options, tmp_path):
    given = load(str(options), {})
    good, bad = ("data", ""), ("", "records: no room")
    kinds = ("pretrain-xlnet", "pretrain-xlnet-wrong")
    # No row of the last kind has records.
    records = {"a": good, "b": good, "c": bad}
    asked, speeds = timings(given, tmp_path, records)
    assert set(speeds) == set(asked) == {kinds[0], "one", "two"}
    # Tasks begin with the first kind that has a speed.
    records = {"a": good, "b": good, "c": good}
    asked, speeds = timings(given, tmp_path, records, fails=kinds[:1])
    assert set(speeds) == {kinds[1], "one", "two"}
    start = f"--init_checkpoint={tmp_path}/out/speed/{kinds[1]}-1/run"
    assert start in asked["one"][1]
    # None at all: nothing to begin with.
    asked, speeds = timings(given, tmp_path, records, fails=kinds)
    assert set(asked) == set(kinds) and speeds == {}
    records = {"a": bad, "b": bad, "c": bad}
    assert timings(given, tmp_path, records) == ({}, {})


def test_an_empty_held_out_split_ends_before_the_first_pretraining(
    tmp_path, monkeypatch
):
    """Where a column is read from evaluations on it."""
    text = OPTIONS.replace(
        'loss", file = "eval.json"', 'loss", file = "evaluations.jsonl"'
    )
    path = tmp_path / "options.toml"
    path.write_text(text)
    given, done = load(str(path), {}), []
    dev = {"a": True, "b": False, "c": False}

    class Runner(study.Study):
        def do(self, job):
            done.append(job.name)
            return {}

        def _records(self, row):
            return row.key, ""

    monkeypatch.setattr(
        study_report, "without_held_out", lambda home: not dev[home]
    )
    runner = Runner(str(tmp_path / "out"), given)
    wrong = "b has an empty dev split, and the column 'loss'"
    with pytest.raises(UserError, match=wrong):
        runner.run()
    assert not done
    for row in given.rows[1:]:
        row.pretrain["eval_data_dir"] = "other"
    study_records.check_held_out(given, {key: (key, "") for key in dev})
    only = study.Study(str(tmp_path / "x"), load(str(path), {}), True)
    only.run()  # a table of what is there is none of its business


def test_records_tell_whether_they_are_held_out(tmp_path):
    for fraction, wanted in ((0.0, True), (0.4, False)):
        manifest = builds.run(tmp_path, str(fraction), dev_fraction=fraction)
        found = study_report.without_held_out(manifest.data_dir)
        assert found == wanted
    (tmp_path / "manifest.json").write_text('{"kind": "stub"}')
    assert not study_report.without_held_out(str(tmp_path))
