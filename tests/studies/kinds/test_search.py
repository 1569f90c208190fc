"""A search over the settings of a pretraining: its trials, jobs and report."""

import contextlib
import json
import os
import shutil
import types

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining.options import BuildOptions
from flags.recipes.pretrain_recipes import RECIPES
from studies.kinds import search
from studies.kinds import space as spaces
from studies.kinds.registry import load, runner_of
from studies.runner import study_file
from studies.runner.jobs import Job
from studies.runner.seed_table import Row
from studies.runner.speeds import Speed
from tests.helpers import commands
from tests.studies.toy_studies import PLACES, STUB, TINY, tiny

OPTIONS = """
kind = "search"
reference = "default"
trials = 5
pretrain_seeds = 1
speed_steps = 1
records = { command = "STUB" }
pretrain = { command = "STUB", train_steps = 9, width = 1, tied = true }
tasks.one = { command = "STUB", in_place = true }
columns = [
  { name = "loss", file = "eval.json", metric = "accuracy", higher = false },
  { name = "one", of = "one", file = "eval.json", metric = "accuracy" },
]
rows = [{ name = "default" }]
[space]
rate = { low = 1e-3, high = 1e-1, log = true }
width = [1, 2, 3]
[space.size]
deep = { pretrain = { layers = 6 }, records = { seq_len = 3 } }
wrong = { pretrain = { objective = "wrong" }, drop = ["tied"] }
"""


def written(home):
    """The file of options, of a command that is a stub."""
    stub = home / "stub.py"
    stub.write_text(STUB)
    path = home / "search.toml"
    path.write_text(OPTIONS.replace("STUB", f"-S -E {stub}"))
    return path


@pytest.fixture
def path(tmp_path):
    return written(tmp_path)


def edited(path, old, new):
    """The file with a change; its options."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return load(str(path), {})


def started(folder, options, **more):
    """A runner, and the lines that it prints."""
    runner, lines = runner_of(str(folder), options, **more), []
    runner._say = lines.append
    return runner, lines


def results_in(folder):
    """What a search leaves: path -> bytes; without times and pictures."""
    names = ("trials.json", "table.md", "table.tsv", "results.json")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A search that ran through: its file, folder, runner, rows and lines."""
    home = tmp_path_factory.mktemp("done")
    path = written(home)
    runner, lines = started(home / "out", load(str(path), {}))
    rows = runner.run()
    files = [os.path.basename(p) for p in runner.write(rows)]
    return types.SimpleNamespace(**locals())


@pytest.fixture
def copied(done, tmp_path):
    """Its folder once more, to go on in."""
    return shutil.copytree(done.home / "out", tmp_path / "out")


def test_every_job_runs_once(done):
    """Though the plan is made again and again."""
    names = [line.split(":")[0] for line in done.lines]
    jobs = [n for n in names if n.startswith(("trial", "default", "speed"))]
    assert len(set(jobs)) == len(jobs)
    assert {f"trial-{k:03d}-0" for k in range(5)} <= set(jobs)
    kept = json.loads((done.home / "out" / "trials.json").read_text())["trials"]
    assert kept == done.runner.trials and len(kept) == 5


@pytest.mark.long
def test_a_search_killed_at_any_trial_goes_on(
    done, path, tmp_path, monkeypatch
):
    """The same trials and the same table as of the one that ran through."""
    path.write_text(done.path.read_text())
    starts, seen, do_on = 0, set(), search.Search.do_on

    def dies(self, job, cores):
        if job.name not in seen:
            seen.add(job.name)
            if len(seen) % 4 == 0:
                raise KeyboardInterrupt
        return do_on(self, job, cores)

    monkeypatch.setattr(search.Search, "do_on", dies)
    while starts < 20:
        again, _ = started(tmp_path / "out", load(str(path), {}))
        starts += 1
        with contextlib.suppress(KeyboardInterrupt):
            again.write(again.run())
            break
    assert starts == 1 + len(seen) // 4 > 3
    assert results_in(tmp_path / "out") == results_in(done.home / "out")


@pytest.mark.long
def test_the_number_of_workers_changes_nothing(done, path, tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    path.write_text(done.path.read_text())
    runner, _ = started(tmp_path / "out", load(str(path), {}), workers=2)
    runner.write(runner.run())
    assert results_in(tmp_path / "out") == results_in(done.home / "out")


def test_the_report(done):
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in done.runner.text(done.rows).splitlines()
        if line.startswith("|")
    ]
    assert lines[0] == ["row", "rate", "width", "size", "loss", "one"]
    body = lines[2:]
    assert len(body) == 1 + 5
    # The best first, the failed ones last.
    losses = [line[-2].split(" ")[0] for line in body]
    good = [float(v) for v in losses if v != "failed:"]
    assert good == sorted(good) and 1 < len(good) < 6
    assert losses[len(good) :] == ["failed:"] * (6 - len(good))
    for line in body:
        if line[0] == "default":
            assert line[1:4] == ["", "", ""]
            continue
        settings = done.runner.trials[int(line[0].removeprefix("trial-"))]
        shown = [str(settings[name]) for name in ("rate", "width", "size")]
        assert line[1:4] == shown
        assert ("no such objective" in line[-2]) == (line[3] == "wrong")
    assert done.files[-2:] == ["search.png", "search.svg"]


def test_a_trial_of_fewer_seeds_is_not_the_best(done):
    """Its other seeds failed; the median of one was the best of all."""
    losses = {"a": (3.0, 3.0), "b": (1.0,), "c": (2.0, 2.5), "d": ()}
    rows = [
        Row(name, {"loss": {str(k): x for k, x in enumerate(of)}} if of else {})
        for name, of in losses.items()
    ]
    order = done.runner._order(rows)
    assert [row.name for row in order] == ["c", "a", "b", "d"]


def test_the_flags_of_the_best_trial(done):
    losses = {
        row.name.split(" ")[0]: row.values["loss"]["0"]
        for row in done.rows
        if row.values.get("loss")
    }
    best = min(losses, key=losses.get)
    text = done.runner.text(done.rows)
    assert f"\n{best} is the best." in text
    settings = done.runner.trials[int(best.removeprefix("trial-"))]
    flags = f"--rate={settings['rate']} --width={settings['width']} --layers=6"
    assert f"- pretraining: `{flags}`\n- records: `--seq_len=3`\n" in text


def test_the_budget_has_the_trials_to_come(done):
    budgets = [line for line in done.lines if "hours to go" in line]
    assert "; then 5 trials, about " in budgets[0]
    assert "; then 3 trials, about " in budgets[1]
    assert "then" not in budgets[-1]


def test_a_table_runs_nothing(done, path, copied):
    path.write_text(done.path.read_text())
    before = results_in(copied)
    options = edited(path, "trials = 5", "trials = 9")
    reader, _ = started(copied, options, only_read=True)
    rows = reader.run()
    assert len(rows) == 6 and reader.trials == done.runner.trials
    assert "5 trials of 9" in reader.text(rows)
    assert results_in(copied) == before


def test_a_table_of_trials_that_are_not_there(done, path, copied, tmp_path):
    """`studies.figure` reads a table where no trials.json lies."""
    path.write_text(done.path.read_text())
    options = load(str(path), {})
    elsewhere, _ = started(tmp_path / "new", options, only_read=True)
    with pytest.raises(UserError, match=r"table\.tsv: the study has no row"):
        elsewhere.read_rows(str(copied / "table.tsv"))
    reader, _ = started(copied, options, only_read=True)
    assert [
        row.name for row in reader.read_rows(str(copied / "table.tsv"))
    ] == [row.name for row in done.rows]


def test_a_table_of_equal_seconds_before_the_first_start(path, tmp_path):
    """It ended in a stack trace: no step was timed."""
    options = edited(path, "trials = 5", "trials = 5\nseconds = 9")
    runner, _ = started(tmp_path / "out", options, only_read=True)
    assert "| default |  |  |  | not run |" in runner.text(runner.run())


def test_more_trials_go_on_from_those_that_are_there(done, path, copied):
    path.write_text(done.path.read_text())
    more, _ = started(copied, edited(path, "trials = 5", "trials = 6"))
    more.run()
    assert more.trials[:5] == done.runner.trials and len(more.trials) == 6


def test_a_changed_space_is_refused(done, path, copied):
    path.write_text(done.path.read_text())
    options = edited(path, "width = [1, 2, 3]", "width = [4]")
    refused = r"trials\.json: trial 0 has .*\[space\]"
    with pytest.raises(UserError, match=refused):
        runner_of(str(copied), options)
    options = edited(path, "width = [4]", "height = [4]")
    with pytest.raises(UserError, match="give another output folder"):
        runner_of(str(copied), options)


@pytest.mark.parametrize(
    "content, message",
    [
        ("{}", "wanted a list `trials`"),
        ('{"trials": 3}', "wanted a list `trials`"),
        ('{"trials": [3]}', "trial 0 has 3"),
        ("[]", "JSON object"),
        ("", "is not valid JSON"),
    ],
)
def test_a_file_of_trials_that_is_none(done, path, copied, content, message):
    path.write_text(done.path.read_text())
    (copied / "trials.json").write_text(content)
    with pytest.raises(UserError, match=rf"trials\.json.*{message}"):
        runner_of(str(copied), load(str(path), {}))


def test_a_row_without_a_task_has_an_empty_cell(done):
    column = done.runner.options.columns[1]
    assert search._cell(Row("default"), column) == ""
    row = Row("default", errors={"one": "not run"})
    assert search._cell(row, column) == "not run"


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("trials = 5", "trials = 0", "`trials` must be >= 1"),
        ("trials = 5", "together = 1.5", "`together` must be a whole"),
        ("trials = 5", "seconds = -1", "`seconds` must be >= 0"),
        ("trials = 5", 'by = "two"', r"`by` must be .* \(loss, one\), found"),
        ("speed_steps = 1", "speed_steps = 0\nseconds = 9", "`speed_steps`"),
        ("[space]", "[spaces]", "argument 'spaces'"),
        ("width = [1, 2, 3]", "width = 3", "space.width: wanted a list"),
        ("layers = 6 }", "layers = 6 }, lr = 3", "space.size: wanted"),
        ("drop = [", 'start = "weights", drop = [', "space.size: wanted"),
        (
            '{ name = "default" }',
            '{ name = "default", start = "weights" }',
            "`start` is instead|`start` of the study",
        ),
        ('drop = ["tied"]', 'drop = ["tide"]', "size.wrong: `drop`: .* 'tide'"),
        ("width = [1, 2, 3]", "seed = [1, 2]", ".space.: `seed` is set by"),
        ("width = [1, 2, 3]", "train_steps = [1, 2.5]", "whole number .* 2.5"),
        (
            '{ name = "default" }',
            '{ name = "default", paper = { loss = 3 } }',
            "reports no `paper`",
        ),
    ],
)
def test_wrong_options(path, old, new, message):
    with pytest.raises(UserError, match=message):
        edited(path, old, new)


def test_equal_seconds(path, tmp_path, monkeypatch):
    """Steps follow from a row's own measured step; without one it failed."""
    options = edited(path, "trials = 5", "trials = 2\nseconds = 120")
    assert options.equal_seconds
    options = edited(path, "pretrain_seeds = 1", "pretrain_seeds = 2")
    runner, _ = started(tmp_path / "out", options)
    # 24 of start and 120 of steps; timed: two starts and 4 steps.
    row = Job("default-0", (), kind="pretrain-xlnet-default", steps=240)
    speeds = {row.kind: Speed(24.0, 0.5)}
    hours = 2 * (24 + 120 + 2 * 24 + 4 * 0.5) / 3600
    assert f"then 2 trials, about {hours:.2f} hours" in (
        runner.budget([row], speeds)
    )
    asked = []

    def do_on(job: Job, cores):
        if job.name.startswith("speed/"):
            steps = int(job.name.rpartition("-")[2])
            width = next(w for w in job.commands[0] if "--width=" in w)
            width = int(width.rpartition("=")[2])
            wrong = "--objective=wrong" in job.commands[0]
            # Other work took half of the time of the shorter run.
            result = {"seconds": 99.0, "cpu_seconds": 3 + 0.5 * width * steps}
            result = {"error": "out of memory"} if wrong else result
        else:
            asked.append((job.name, job.commands[0]))
            result = {"loss": 1.0, "one": 1.0, "seconds": 1.0}
            result["cpu_seconds"] = 130.0 + int(job.name[-1])
        runner.results[job.name] = result
        return result

    monkeypatch.setattr(runner, "do_on", do_on)
    monkeypatch.setattr(runner, "_records", lambda row: ("data", ""))
    runner.trials = [
        {"rate": 0.01, "width": 3, "size": "deep"},
        {"rate": 0.02, "width": 2, "size": "wrong"},
    ]
    runner._take()
    rows = runner.run()
    steps = {
        name: next(w for w in words if w.startswith("--train_steps="))
        for name, words in asked
        if "/" not in name
    }
    assert steps == {
        "default-0": "--train_steps=240",
        "default-1": "--train_steps=240",
        "trial-000-0": "--train_steps=80",
        "trial-000-1": "--train_steps=80",
    }
    lines = runner.text(rows).splitlines()
    cells = [line.split(" | ") for line in lines if line.startswith("| ")]
    assert cells[0][-1] == "CPU s |"
    assert cells[2][0] == "| default" and cells[2][-1] == "130 |"
    assert rows[2].values == {}
    assert "out of memory" in rows[2].errors["loss"]
    assert "speed/pretrain-xlnet-wrong-trial-001" in rows[2].errors["loss"]


SMALL = TINY | {
    "trials = 24": "trials = 2",
    "seconds = 240": "seconds = 0",
    "seq_len = 64": "seq_len = 16",
    "reuse_len = 32": "reuse_len = 8",
    "mem_len = [0, 64]": "mem_len = [0, 16]",
    "warmup_steps = [20, 50, 100]": "warmup_steps = [1, 2]",
    "decay_steps = 150": "decay_steps = 1",
    "warmup_steps = 20": "warmup_steps = 1",
    "mem_len = 64": "mem_len = 16",
    "eval_steps = 16": "eval_steps = 2",
    "eval_batch_size = 16": "eval_batch_size = 4",
}


def test_the_file_of_the_project():
    options = load(study_file.path_of("recipe"), PLACES)
    assert type(options) is search.SearchOptions
    names = [s.name for s in options.space]
    assert len(names) == 8 and options.chosen_by.name == "loss"


def test_the_reference_is_the_recipe_of_its_name():
    options = load(study_file.path_of("recipe"), PLACES)
    assert options.reference == "small_minutes"
    wanted = dict(RECIPES["small_minutes"].flags)
    assert wanted.pop("mask_beta") == BuildOptions("a", "b", "c").mask_beta
    flags = options.pretrain.flags | options.records.flags
    assert {name: flags.get(name) for name in wanted} == wanted


def test_every_choice_is_accepted_by_its_command(parsed):
    """The flags of all choices, one setting after the other."""
    options = load(study_file.path_of("recipe"), PLACES)
    first = {s.name: (s.values or (s.low,))[0] for s in options.space}
    for setting in options.space:
        for value in setting.values or (setting.low, setting.high):
            row = spaces.row("t", options.space, first | {setting.name: value})
            words = options.pretrain.words(
                data_dir="D", model_dir="M", seed=0, **row.pretrain
            )
            run = parsed(words)
            assert run.optimizer.learning_rate > 0
            task = options.tasks["held-out"]
            words = task.words(model_dir="M", **row.tasks.get(task.base, {}))
            assert parsed(words).train_steps > 0


@pytest.mark.slow
def test_from_text_to_the_best_trial(tmp_path):
    text = tmp_path / "text.txt"
    random = np.random.default_rng(3)
    words = ["river", "mountain", "apple", "seven", "quiet", "letters", "under"]
    lines = [" ".join(random.choice(words, 9)) + "." for _ in range(1500)]
    documents = ["\n".join(lines[k : k + 10]) for k in range(0, 1500, 10)]
    text.write_text("\n\n".join(documents))
    study = tmp_path / "study.toml"
    study.write_text(tiny("recipe", SMALL))
    command = ["-m", "studies.run", f"--study={study}", "--workers=2"]
    command += [f"--output_dir={tmp_path / 'out'}", f"--input_glob={text}"]
    done = commands.run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(results) == 1 + 2
    for row in results.values():
        assert row["errors"] == {} and 2 < row["of"]["loss"]["0.0"] < 5
    assert " is the best." in done.stdout
    again = commands.run(*command)
    assert again.returncode == 0 and "6 jobs, 6 done" in again.stdout
    report = (tmp_path / "out" / "table.md").read_text()
    assert done.stdout.count(report) == again.stdout.count(report) == 1
