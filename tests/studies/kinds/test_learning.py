"""Our defaults beside the original's objective: jobs, table, curves."""

import dataclasses
import json
import pathlib
import types

import numpy as np
import pytest

from benchmarks.compare import harness
from common.errors import UserError
from studies.kinds import learning
from studies.kinds.registry import load, runner_of
from studies.runner import study_file
from studies.runner.study_commands import Command
from studies.runner.study_file import ResultColumn, RowOptions
from tests.helpers import commands
from tests.studies.toy_studies import PLACES, TINY, tiny

ORIGINALS, OURS = "held out, original's targets", "held out, our targets"
SMALL = TINY | {
    "mem_len = 64": "mem_len = 16",
    "batch_size = 16": "batch_size = 4",
    "eval_steps = 8": "eval_steps = 2",
    "eval_every = 50": "eval_every = 2",
    "warmup_steps = 100": "warmup_steps = 0",
    "pretrain_seeds = 2": "pretrain_seeds = 1",
    "rounds = 20": "rounds = 2",
}


@pytest.fixture
def runner(tmp_path):
    """Of two seeds that are done: evaluated at 0, 50 and 100 steps."""
    path = tmp_path / "study.toml"
    text = tiny("learning", SMALL).replace(
        "pretrain_seeds = 1", "pretrain_seeds = 2"
    )
    path.write_text(text.replace("train_steps = 4", "train_steps = 100"))
    runner = runner_of(str(tmp_path / "out"), load(str(path), PLACES), True)
    losses = {
        "ours-0": (8.0, 6.0, 5.0),
        "ours-1": (8.0, 6.0, 5.2),
        "original-0": (8.0, 7.0, 5.0),
        "original-1": (8.0, 7.0, 5.4),
    }
    for name, own in losses.items():
        home = tmp_path / "out" / name / "run"
        home.mkdir(parents=True)
        rows = zip((0, 50, 100), own, strict=True)
        lines = [json.dumps({"step": s, "lm_loss": x}) for s, x in rows]
        (home / "evaluations.jsonl").write_text("\n".join(lines))
        runner.results[name] = {ORIGINALS: own[-1]}
        runner.results[f"{name}/on_ours-0"] = {OURS: own[-1] - 1.0}
    return runner


def timed(runner, **seconds):
    value = {"timed": runner._timed(), "seconds": seconds}
    (pathlib.Path(runner.folder) / "speed.json").write_text(json.dumps(value))
    return runner


def lines_of(runner):
    text = runner.text(runner._rows())
    cells = [
        line.strip("| ").split(" | ") for line in text.strip().splitlines()
    ]
    return {line[0]: line[1:] for line in cells}


def test_a_damaged_line_is_named(runner):
    path = pathlib.Path(runner.folder) / "ours-1/run/evaluations.jsonl"
    path.write_text(path.read_text() + '\n{"step": 1')
    with pytest.raises(UserError, match="ours-1/run/eval.* is damaged"):
        runner.curves()
    path.unlink()
    assert [*runner.curves()["ours"]] == ["0"]


def test_the_table_by_hand(runner):
    lines = lines_of(timed(runner, ours=0.2, original=0.4))
    assert lines["row"] == [
        *(ORIGINALS, OURS, learning._STEP, learning._STEPS, learning._THEN)
    ]
    ours = "**5.100** (5.100 ± 0.141, 2)"
    assert lines["ours"][0] == lines["ours"][4] == ours
    assert lines["ours"][1:4] == [
        "**4.100** (4.100 ± 0.141, 2)",
        "0.200 (0.200 ± 0.000, 1)",
        "100 (100 ± 0, 1)",
    ]
    # The other's pace leaves it half of the steps.
    assert lines["original"][3] == "50 (50 ± 0, 1)"
    assert lines["original"][4] == "7.000 (7.000 ± 0.000, 2)"
    apart = lines["less original"]
    assert apart[0] == "-0.100 [-0.200, +0.000]"
    assert apart[2:] == ["", "", "-1.900 [-2.000, -1.800]"]


def test_a_table_alone_has_no_curves(runner):
    """`studies.figure` ended in a stack trace."""
    rows = runner._rows()
    runner.results.clear()
    assert runner.draw(rows) == []


def test_a_slower_step_of_ours_is_counted_against_us(runner):
    lines = lines_of(timed(runner, ours=0.4, original=0.2))
    assert lines["ours"][3:] == ["50 (50 ± 0, 1)", "6.000 (6.000 ± 0.000, 2)"]
    assert lines["less original"][4].startswith("+0.800 [")


def test_a_table_without_runs_or_times_says_so(runner):
    assert len(lines_of(runner)["row"]) == 2  # nothing is timed
    for name in runner.results:
        runner.results[name] = {"error": "not run"}
    assert lines_of(runner)["ours"] == ["not run", "not run"]
    assert not any(runner.curves().values())
    assert runner.draw(runner._rows()) == []


def test_each_row_is_timed_with_its_own_sizes(runner, monkeypatch):
    """And again where they, the systems or the rows of the file are others."""
    records = {"ours": (32, 36, 5), "original": (24, 40, 3)}
    names = ("seq_len", "vocab_size", "num_predict")
    monkeypatch.setattr(
        learning.PretrainingManifest,
        "load",
        lambda path: types.SimpleNamespace(
            **dict(zip(names, records[path.split("-")[1][:-5]], strict=True))
        ),
    )
    steps = []

    def compare(systems, workload, rounds):
        steps.append([workload.replace(**s.sizes) for s in systems])
        return [harness.Result(s.name, seconds=[0.5] * rounds) for s in systems]

    monkeypatch.setattr(learning.harness, "compare", compare)
    runner.only_read = False
    deep = dataclasses.replace(
        runner.options.rows[1],
        pretrain=runner.options.rows[1].pretrain | {"n_layer": 2},
    )
    first = runner.options
    changed = dataclasses.replace(first, rows=(first.rows[0], deep))
    for options in (changed, changed, first):
        runner.options = options
        assert runner.seconds == {"ours": 0.5, "original": 0.5}
        del runner.seconds
    assert len(steps) == 2  # the second time they are read
    sizes = ("layers", "width", "length", "vocab", "predict", "dropout")
    found = [[getattr(w, name) for name in sizes] for w in steps[0]]
    assert found == [[1, 16, 32, 36, 5, 0.0], [2, 16, 24, 40, 3, 0.0]]
    assert steps[1][1].layers == 1


def test_a_table_leaves_times_of_other_rows_out(runner):
    timed(runner, ours=0.2)
    said, runner._say = [], lambda line: said.append(line)
    systems = runner.options.systems | {"original": "benchmarks.systems.ours"}
    runner.options = dataclasses.replace(runner.options, systems=systems)
    assert len(lines_of(runner)["row"]) == 2
    assert len(said) == 1 and "speed.json is of other steps" in said[0]


def test_the_picture_has_both_budgets(runner, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        learning.figures, "save", lambda figure, stem: [drawn.append(figure)]
    )
    timed(runner, ours=0.2, original=0.5).draw(runner._rows())
    steps, seconds = drawn[0].axes
    ends = [
        [line.get_xdata()[-1] for line in a.lines] for a in (steps, seconds)
    ]
    assert ends == [[100] * 4, [20.0, 20.0, 50.0, 50.0]]
    assert "n = 2 seeds" in drawn[0].get_suptitle()
    del runner.seconds
    (pathlib.Path(runner.folder) / "speed.json").unlink()
    runner.draw(runner._rows())
    assert len(drawn[1].axes) == 1


def test_both_differ_in_their_records_alone(tmp_path):
    options = load(study_file.path_of("learning"), PLACES)
    ours, theirs = (
        options.first[f"records-{name}"].words()
        for name in ("ours", "original")
    )
    more = set(theirs) - set(ours)
    assert {x.split("=")[0] for x in more} == {"--output_dir", "--sampler"}
    runner = runner_of(str(tmp_path), options, only_read=True)
    runner._first = lambda: ""  # the data are there
    words = {job.name: job.commands[0] for job in runner._plan()[0]}
    apart = set(words["ours-1"]) ^ set(words["original-1"])
    assert {x.split("=")[0] for x in apart} == {"--data_dir", "--model_dir"}
    held_out = "--eval_data_dir=OUT/records-original/data"
    assert held_out in words["ours-1"] and held_out in words["original-1"]
    then = words["original-1/on_ours-0"]
    assert {"--eval_data_dir=OUT/records-ours/data", "--mode=eval"} < set(then)
    assert f"--model_dir={tmp_path}/original-1/run" in then
    manifest = "--data_dir=OUT/records-original/data"
    assert manifest in then and manifest in words["original-0"]


def test_every_row_is_pretrained():
    """Also where nothing is timed."""
    column = ResultColumn("l", file="evaluations.jsonl", metric="lm_loss")
    rows = (RowOptions("ours"), RowOptions("given", start="weights"))
    with pytest.raises(UserError, match="pretrains: no row has a `start`"):
        learning.LearningOptions(
            reference="ours",
            rows=rows,
            columns=(column,),
            pretrain=Command((), {}),
            start="S",
        )


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("evaluations.jsonl", "eval.json", "wanted a column of .pretrain."),
        ("d_inner = 768\n", "", "row 'ours': `d_inner` is missing"),
        ('ours = "benchmarks', 'mine = "benchmarks', "one of .systems. is mis"),
    ],
)
def test_options_that_are_wrong(tmp_path, old, new, message):
    text = pathlib.Path(study_file.path_of("learning")).read_text()
    assert old in text
    path = tmp_path / "study.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=message):
        load(str(path), PLACES)


@pytest.mark.slow
def test_from_text_to_the_picture_and_again(tmp_path):
    text = tmp_path / "text.txt"
    random = np.random.default_rng(3)
    words = ["river", "mountain", "apple", "seven", "quiet", "letters", "under"]
    lines = [" ".join(random.choice(words, 9)) + "." for _ in range(1500)]
    text.write_text("\n".join(lines))
    study = tmp_path / "study.toml"
    study.write_text(tiny("learning", SMALL))

    def start(*more):
        command = ["-m", "studies.run", f"--study={study}", *more]
        command += [f"--output_dir={tmp_path / 'out'}", f"--input_glob={text}"]
        return commands.run(*command)

    done = start()
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out" / "learning.json").read_text())
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    for rule in ("ours", "original"):
        curve = found["curves"][rule]["0"]
        assert curve["steps"] == [0, 2, 4]
        values = results[rule]["of"]
        assert 2 < curve["losses"][-1] == values[ORIGINALS]["0"] < 5
        assert 2 < values[OURS]["0.0"] < 5
        assert found["seconds"][rule] > 0
        assert values[learning._STEP] == {"all": found["seconds"][rule]}
    assert found["curves"]["ours"]["0"]["losses"][0] == pytest.approx(
        found["curves"]["original"]["0"]["losses"][0]
    )  # equal weights, equal held-out targets
    table = (tmp_path / "out" / "table.md").read_bytes()
    for name in ("learning.png", "learning.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    log = (tmp_path / "out" / "ours-0" / "log.txt").read_bytes()
    again = start("--table")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (tmp_path / "out" / "table.md").read_bytes() == table
    assert (tmp_path / "out" / "ours-0" / "log.txt").read_bytes() == log
    study.write_text(
        tiny("learning", SMALL).replace(
            "learning_rate = 1e-3", "learning_rate = 1"
        )
    )
    other = start()
    said = other.stdout + other.stderr
    assert other.returncode == 1 and "made with other options" in said
    assert "Traceback" not in said
