"""What pretraining adds: which jobs, the gain by hand, curves, failures."""

import csv
import json
import math
import os

import pytest

from common.errors import UserError
from modeling.encoders.registry import read_config
from modeling.encoders.xlnet.config import XLNetConfig
from studies.kinds import gains
from studies.kinds.registry import load, runner_of
from studies.runner import jobs, study_file
from studies.runner.seed_table import Column, Row
from tests.benchmarks.squad_scores import scores
from tests.conftest import ROOT

OPTIONS = """
kind = "gains"
reference = "random"
finetune_seeds = 3
speed_steps = 0
start = "{start}"
rows = [
  { name = "pretrained", start = "weights" },
  { name = "random", start = "random" },
]
columns = [
  { name = "a", of = "a", file = "eval_dev.json", metric = "accuracy", scale = 100.0 },
  { name = "b", of = "b", file = "eval_dev.json", metric = "f1", scale = 100.0 },
]
[all]
train_steps = 9
progress = "lines"
[tasks.a]
command = "run_classifier.py"
data_dir = "{data}/a"
labels = [5, 20, 80, 0]
few = { train_steps = 4 }
[tasks.b]
command = "run_squad.py"
train_steps = 7
labels = [200, 0]
"""
PLACES = {"data": "D", "start": "S"}


@pytest.fixture
def start(tmp_path):
    folder = tmp_path / "start"
    folder.mkdir()
    (folder / "xlnet_config.json").write_text("{}")
    (folder / "spiece.model").write_bytes(b"")
    return str(folder)


@pytest.fixture
def done(monkeypatch, tmp_path, start):
    """Jobs that are told instead of run, and the rows."""
    asked = {}

    def run_job(job, folder, cores):
        del folder, cores
        asked[job.name] = job
        (label,) = job.reads
        if job.name == "b-all/random-1":
            return {"error": "no room"}
        better = 0.2 if "pretrained" in job.name else 0.0
        return {label: 0.5 + better + 0.01 * int(job.name[-1]), "seconds": 1}

    monkeypatch.setattr(jobs, "run_job", run_job)
    path = tmp_path / "options.toml"
    path.write_text(OPTIONS)
    options = load(str(path), {"data": "D", "start": start})
    runner = runner_of(str(tmp_path / "out"), options)
    lines = []
    runner._say = lines.append
    return asked, runner, runner.run(), lines


def test_the_jobs_and_their_commands(done, start):
    asked, _, _, lines = done
    assert len(asked) == 3 * 2 * (4 + 2) and lines[0] == "36 jobs, 0 done"
    # A seed of everything is there early.
    assert list(asked)[:2] == ["a-5/pretrained-0", "a-20/pretrained-0"]
    assert {name[-1] for name in list(asked)[:12]} == {"0"}
    words = asked["a-20/random-2"].commands[0]
    assert words[0] == "run_classifier.py" and "--data_dir=D/a" in words
    # The same examples for both: they are drawn with the seed.
    for word in ("--seed=2", "--train_examples=20", "--train_steps=4"):
        assert word in words and word in asked["a-20/pretrained-2"].commands[0]
    assert f"--model_config_path={start}/xlnet_config.json" in words
    assert not any("init_checkpoint" in w for w in words)
    whole = asked["a-all/pretrained-0"].commands[0]
    assert f"--init_checkpoint={start}" in whole
    assert "--train_steps=9" in whole
    assert not any("train_examples" in w for w in whole)
    squad = asked["b-200/random-0"]
    assert "--train_steps=7" in squad.commands[0]
    ((path, metric),) = squad.reads.values()
    assert path.endswith("out/b-200/random-0/run/eval_dev.json")
    assert metric == "f1" and "--train_examples=200" in squad.commands[0]
    assert len({w.split("=")[0] for w in words}) == len(words)


def test_random_weights_are_drawn_as_the_options_say(tmp_path, start):
    config = XLNetConfig(17, 8, 2, 2, 4, 12, init_std=0.05)
    config.to_json_file(f"{start}/xlnet_config.json")
    path = tmp_path / "options.toml"
    path.write_text("random_init_std = 0.02\n" + OPTIONS)
    options = load(str(path), {"data": "D", "start": start})
    out = str(tmp_path / "out")
    given = f"{out}/random/xlnet_config.json"
    for only_read in (True, False):
        runner = runner_of(out, options, only_read)
        words = {job.name: job.commands[0] for job in runner._plan()[0]}
        assert f"--model_config_path={given}" in words["a-5/random-0"]
        assert os.path.exists(given) != only_read
    assert read_config(given) == config.replace(init_std=0.02)
    assert read_config(f"{start}/xlnet_config.json") == config


def test_the_table_and_its_curves(done):
    _, runner, rows, _ = done
    lines = runner.text(rows).splitlines()
    assert len(lines) == 2 + 6 + 2
    # 71, 70, 72 less 50, 51, 52: each deviates by 1.
    error = math.sqrt(1 / 3 + 1 / 3)
    assert lines[2] == (
        "| a | accuracy | 5 | 71.0 ± 1.0 (3) | 51.0 ± 1.0 (3) | "
        f"+20.0 ± {error:.1f} | better |"
    )
    assert "; failed: no room |" in lines[7]
    assert lines[-1] == (
        "Pretrained is better than random by more than two standard errors, "
        "with some number of labels, on 2 of 2 tasks (a, b), and worse on 0 "
        "(none)."
    )
    os.makedirs(runner.folder)
    paths = runner.write(rows)
    assert [os.path.basename(path) for path in paths] == [
        *("table.md", "results.json", "table.tsv"),
        *("curves.png", "curves.svg"),
    ]
    assert os.path.getsize(paths[3]) > 1000
    with open(paths[1]) as f:
        cells = json.load(f)
    assert [(c["task"], c["labels"]) for c in cells[2:5]] == [
        *(("a", 80), ("a", 0), ("b", 200)),
    ]
    assert cells[5]["errors"] == {"random": "no room"}
    assert cells[5]["values"]["random"] == {"0": 50.0, "2": 52.0}
    with open(paths[2]) as f:
        lines = f.read().splitlines()
    assert len(lines) == 1 + 36 - 1  # one failed
    assert len({tuple(line.split("\t")[:4]) for line in lines}) == len(lines)
    assert lines[1] == "a\t5\tpretrained\t0\taccuracy\t0.7\t1"
    assert "b\tall\trandom\t2\tf1\t0.52\t1" in lines
    # The values of the table are the rows', and without "a" nothing is drawn.
    read = runner.read_rows(paths[2])
    assert [row.values for row in read] == [
        {c: pytest.approx(v) for c, v in row.values.items()} for row in rows
    ]
    for row in rows:
        del row.values["a-80"]
    assert runner.draw(rows) == []


def test_two_metrics_of_a_task_are_two_columns(tmp_path, start):
    """Read from the table, drawn, and told apart in the results."""
    path = tmp_path / "options.toml"
    more = OPTIONS.replace(
        "columns = [",
        'columns = [ { name = "f", of = "a", file = "eval_dev.json", '
        'metric = "f1", scale = 100.0 },',
    )
    path.write_text(more)
    options = load(str(path), {"data": "D", "start": start})
    runner = runner_of(str(tmp_path / "out"), options)
    rows = [Row(row.name) for row in options.rows]
    for row in rows:
        for number, column in enumerate(options.columns):
            result = {"x": 10.0 * number, "seconds": 1.0}
            row.add(column.name, "0", result, "x")
    table = tmp_path / "table.tsv"
    table.write_text(runner._lines(rows))
    read = runner.read_rows(str(table))
    assert [row.values for row in read] == [row.values for row in rows]
    curves = runner._with_curves(rows)
    assert list(curves) == [("a", "f1"), ("a", "accuracy")]
    assert curves["a", "f1"][5].name == "f-5"
    metrics = [(c["task"], c["metric"]) for c in runner._cells(rows)]
    assert metrics[0] == ("a", "f1") and metrics[4] == ("a", "accuracy")


def test_a_row_without_a_task_has_empty_cells(done, tmp_path):
    _, runner, _, _ = done
    path = tmp_path / "options.toml"
    old = 'start = "random" }'
    without = 'start = "random", without = ["b"] }'
    path.write_text(OPTIONS.replace(old, without))
    options = load(str(path), {"data": "D", "start": runner.options.start})
    again = runner_of(str(tmp_path / "out"), options)
    again._say = print
    lines = again.text(again.run()).splitlines()
    cells = [cell.strip() for cell in lines[6].strip("|").split("|")]
    assert cells[:3] == ["b", "f1", "200"]
    assert cells[3:] == ["71.0 ± 1.0 (3)", "", "", ""]
    # What was not run is said, not left out.
    again.results = dict.fromkeys(again.results, {"error": jobs.NOT_RUN})
    lines = again.text(again._rows()).splitlines()
    assert lines[6] == "| b | f1 | 200 | not run |  |  |  |"
    assert lines[2].endswith("| not run | not run |  | not known |")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('of = "b", ', "", "column 'b' must be of a task .*found 'pretrain'"),
        (
            "[all]",
            """[[claims]]
text = "c"
more = ["pretrained"]
less = ["random"]
columns = ["a-5"]
[all]""",
            r'kind = "gains" reports no \[\[claims\]\]: leave it out',
        ),
        (
            'start = "weights"',
            'start = "weights", paper = { "a-5" = 3 }',
            "reports no `paper` of a row",
        ),
    ],
)
def test_what_the_report_has_no_place_for(tmp_path, old, new, message):
    path = tmp_path / "options.toml"
    assert old in OPTIONS
    path.write_text(OPTIONS.replace(old, new))
    with pytest.raises(UserError, match=message):
        load(str(path), PLACES)


@pytest.mark.parametrize(
    "ours,theirs,verdict",
    [
        ((3.0, 3.0), (1.0, 1.0), "better"),
        ((1.0, 1.0), (3.0, 3.0), "worse"),
        ((1.0, 1.0), (1.0, 1.0), "not shown"),
        ((2.0, 4.0), (1.0, 3.0), "not shown"),
        ((2.0,), (1.0, 1.0), "not known"),
        ((), (), "not known"),
    ],
)
def test_a_gain_counts_beyond_two_standard_errors(ours, theirs, verdict):
    row, base = (
        Row("r", {"f1": {str(k): v for k, v in enumerate(values)}})
        for values in (ours, theirs)
    )
    turned = {"better": "worse", "worse": "better"}
    for higher in (True, False):
        column = Column("f1", higher=higher)
        found = gains.verdict(gains.gain(row, base, column), column)
        assert found == (verdict if higher else turned.get(verdict, verdict))


def test_tunings_of_one_pretraining_are_one_value_where_there_are_more():
    """As six independent ones they had less than half of the error."""
    values = {f"{s}.{t}": 10.0 * (1 + s) for s in range(2) for t in range(3)}
    row, base = (
        Row("r", {"f1": values}),
        Row("b", {"f1": dict.fromkeys("01", 9)}),
    )
    assert gains.gain(row, base, Column("f1")) == (6.0, 5.0)
    # Of a single one, as of given weights, they are all that there is.
    one = {f"0.{t}": 10.0 + t for t in range(2)}
    assert gains.gain(Row("r", {"f1": one}), base, Column("f1")) == (1.5, 0.5)


def test_the_file_of_ten_tasks():
    options = load(study_file.path_of("results"), PLACES)
    entries = {task.base for task in options.tasks.values()}
    assert len(entries) == 10 and options.finetune_seeds == 3
    for name in ("trec", "sst-2"):
        own = [t.labels for t in options.tasks.values() if t.base == name]
        assert own == ["50", "200", "1000", "all"]
    # Both rows are tuned alike.
    assert [row.tasks for row in options.rows] == [{}, {}]


def test_the_measured_cells_are_tasks_of_the_file():
    options = load(study_file.path_of("results"), PLACES)
    words = options.tasks["trec-200"].words()
    assert words[0] == "run_classifier.py" and "--do_eval" in words
    assert {"--train_examples=200", "--train_steps=200"} < set(words)
    with open(ROOT / "docs/measured/results_table.tsv", newline="") as f:
        cells = {
            f"{line['task']}-{line['labels']}"
            for line in csv.DictReader(f, delimiter="\t")
        }
    assert cells == set(options.tasks)


def test_squad_is_judged_where_answering_nothing_is_best():
    options = load(study_file.path_of("results"), PLACES)
    (column, _) = (c for c in options.columns if c.of.startswith("squad2"))
    assert column.scale * scores()[column.metric] == 50.0


def test_released_weights_alone(monkeypatch, tmp_path, start):
    """A file with one start: no random weights, no gain."""

    def run_job(job, folder, cores):
        return {label: 0.5 for label in job.reads} | {"seconds": 1}

    monkeypatch.setattr(jobs, "run_job", run_job)
    places = {"data": "D", "start": start}
    options = load(study_file.path_of("released"), places)
    runner = runner_of(str(tmp_path / "out"), options)
    rows = runner.run()
    assert len(runner.listed) == 4 * 2 * 3
    assert not any("random" in job.name for job in runner.listed)
    text = runner.text(rows)
    assert "random" not in text and "gain" not in text
    assert "| trec | accuracy | 200 | 50.0 ± 0.0 (3) |" in text
    os.makedirs(runner.folder)
    assert len(runner.write(rows)) == 3
    with open(runner.path("table.tsv")) as f:
        assert f.read().count("\n") == 1 + 24
    assert list(options.chosen(["ag"]).tasks) == ["ag-200", "ag-all"]
    with pytest.raises(UserError, match="no 'imdb' among trec, sst-2, ag, sts"):
        options.chosen(["imdb"])


def test_rows_of_a_measured_table_have_the_last_value_of_a_job(tmp_path):
    options = load(study_file.path_of("results"), PLACES)
    runner = runner_of(str(tmp_path), options, only_read=True)
    rows = runner.read_rows(str(ROOT / "docs/measured/results_table.tsv"))
    pretrained, random = rows
    # The second run of pretrained weights replaces the first.
    assert pretrained.values["trec-50"]["0"] == pytest.approx(47.0696)
    assert random.values["trec-50"]["0"] == pytest.approx(42.3077)
    column = next(c for c in options.columns if c.name == "trec-50")
    gain, error = gains.gain(pretrained, random, column)
    assert (round(gain, 1), round(error, 1)) == (8.0, 3.1)  # as on the page


def test_the_caption_counts_the_seeds(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        gains.figures, "save", lambda figure, stem: [drawn.append(figure)]
    )
    options = load(study_file.path_of("results"), PLACES)
    runner = runner_of(str(tmp_path), options, only_read=True)
    table = str(ROOT / "docs/measured/results_table.tsv")
    runner.draw(runner.read_rows(table))
    assert [a.get_title() for a in drawn[0].axes] == ["trec", "sst-2"]
    title = drawn[0].get_suptitle()
    assert "mean of n = 3 seeds" in title
    assert title.endswith("python -m studies.run --study=results")
