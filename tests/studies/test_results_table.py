"""What pretraining adds: which jobs, the gain by hand, curves, failures."""

import collections
import math
import os

import pytest

from common.errors import UserError
from modeling.encoders.registry import read_config
from modeling.encoders.xlnet.config import XLNetConfig
from studies import results_table
from studies.results_table import Cell
from studies.runner import jobs
from tests.benchmarks.squad_scores import scores
from tests.conftest import ROOT

OPTIONS = """
seeds = 3
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
metric = "f1"
scale = 1.0
"""


@pytest.fixture
def start(tmp_path):
    folder = tmp_path / "start"
    folder.mkdir()
    (folder / "xlnet_config.json").write_text("{}")
    (folder / "spiece.model").write_bytes(b"")
    return str(folder)


@pytest.fixture
def done(monkeypatch, tmp_path, start):
    """Jobs that are told instead of run, and the cells."""
    asked = {}

    def run_job(job, folder, cores):
        del folder, cores
        asked[job.name] = job
        if job.name == "b-all/random-1":
            return {"error": "no room"}
        better = 0.2 if "pretrained" in job.name else 0.0
        return {"value": 0.5 + better + 0.01 * int(job.name[-1]), "seconds": 1}

    monkeypatch.setattr(jobs, "run_job", run_job)
    path = tmp_path / "options.toml"
    path.write_text(OPTIONS)
    options = results_table.load(str(path), {"data": "D"})
    runner = results_table.ResultsTable(str(tmp_path / "out"), options, start)
    lines = []
    runner._say = lines.append
    cells = runner.run()
    (tmp_path / "table.tsv").write_text(runner.values())
    return asked, options, cells, lines


def test_the_jobs_and_their_commands(done, start):
    asked, _, _, lines = done
    assert len(asked) == 3 * 2 * (4 + 2) and lines[0] == "36 jobs, 0 done"
    assert list(asked)[:3] == ["a-5/pretrained-0", "a-5/random-0"] + [
        "a-20/pretrained-0"
    ]
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
    assert squad.reads["value"][1] == "f1"
    assert len({w.split("=")[0] for w in words}) == len(words)


def test_random_weights_are_drawn_as_the_options_say(tmp_path, start):
    config = XLNetConfig(17, 8, 2, 2, 4, 12, init_std=0.05)
    config.to_json_file(f"{start}/xlnet_config.json")
    path = tmp_path / "options.toml"
    path.write_text("random_init_std = 0.02\n" + OPTIONS)
    options = results_table.load(str(path), {"data": "D"})
    out = str(tmp_path / "out")
    for only_read in (True, False):
        runner = results_table.ResultsTable(out, options, start, only_read)
        runner.do_all = lambda jobs: None
        runner.results = collections.defaultdict(lambda: {"error": "not run"})
        runner.run()
        given = f"{out}/random/xlnet_config.json"
        words = runner.job("a", 5, "random", 0).commands[0]
        assert f"--model_config_path={given}" in words
        assert os.path.exists(given) != only_read
    assert read_config(given) == config.replace(init_std=0.02)
    assert read_config(f"{start}/xlnet_config.json") == config


def test_the_table_and_its_curves(done, tmp_path):
    _, options, cells, _ = done
    lines = results_table.table(cells, options).splitlines()
    assert len(lines) == 2 + 6 + 2
    # 71, 70, 72 less 50, 51, 52: each deviates by 1.
    error = math.sqrt(1 / 3 + 1 / 3)
    assert lines[2] == (
        "| a | accuracy | 5 | 71.0 ± 1.0 (3) | 51.0 ± 1.0 (3) | "
        f"+20.0 ± {error:.1f} | better |"
    )
    assert "; failed: no room |" in lines[7]
    assert lines[-1].endswith("on 2 of 2 tasks (a, b), and worse on 0 (none).")
    paths = results_table.draw(cells, options, str(tmp_path / "curves"))
    assert [p.rsplit(".", 1)[1] for p in paths] == ["png", "svg"]
    assert (tmp_path / "curves.png").stat().st_size > 1000
    assert results_table.draw(cells[4:], options, str(tmp_path / "none")) == []
    lines = (tmp_path / "table.tsv").read_text().splitlines()
    assert len(lines) == 1 + 36 - 1  # one failed
    assert len({tuple(line.split("\t")[:4]) for line in lines}) == len(lines)
    assert lines[1] == "a\t5\tpretrained\t0\taccuracy\t0.7\t1"
    assert "b\tall\trandom\t2\tf1\t0.52\t1" in lines


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
    values = {
        "pretrained": dict(enumerate(ours)),
        "random": dict(enumerate(theirs)),
    }
    assert Cell("t", 0, values, {}).verdict() == verdict


def test_files_that_are_wrong_and_the_default_one(tmp_path, start):
    path = ROOT / "studies" / "options" / "results_table.toml"
    options = results_table.load(str(path), {"data": "D"})
    assert len(options.tasks) == 10 and options.seeds == 3
    for name in ("trec", "sst-2"):
        assert options.tasks[name].labels == (50, 200, 1000, 0)
    wrong = tmp_path / "wrong.toml"
    for text, message in (
        ("seeds = 1\n[tasks.a]\ncommand = 'x'", "from 2 on"),
        ("seeds = 3", "wanted .tasks."),
        (
            "seeds = 3\nrandom_init_std = -1.0\n[tasks.a]\ncommand = 'x'",
            "`random_init_std` must be >= 0",
        ),
        ("[tasks.a]\ncommand = 'x'", "seeds"),
        ("seeds = 3\nsteps = 4\n[tasks.a]\ncommand = 'x'", "steps"),
        ("seeds = 3\n[tasks.a]\nx = 1", "'command' is missing"),
    ):
        wrong.write_text(text)
        with pytest.raises(UserError, match=message):
            results_table.load(str(wrong), {"data": "D"})
    with pytest.raises(UserError, match="found no xlnet_config.json"):
        results_table._config(str(tmp_path))
    assert results_table._config(start).endswith("start/xlnet_config.json")


def test_squad_is_judged_where_answering_nothing_is_best():
    path = ROOT / "studies" / "options" / "results_table.toml"
    task = results_table.load(str(path), {"data": "D"}).tasks["squad2"]
    assert task.scale * scores()[task.metric] == 50.0


def test_released_weights_alone(monkeypatch, tmp_path, start):
    """A file that names one start: no random weights, no gain."""
    monkeypatch.setattr(
        jobs, "run_job", lambda *_: {"value": 0.5, "seconds": 1}
    )
    path = ROOT / "studies" / "options" / "released_table.toml"
    options = results_table.load(str(path), {"data": "D"})
    runner = results_table.ResultsTable(str(tmp_path / "out"), options, start)
    cells = runner.run()
    assert len(runner.listed) == 4 * 2 * 3
    assert not any("random" in job.name for job in runner.listed)
    text = results_table.table(cells, options)
    assert "random" not in text and "gain" not in text
    assert "| trec | accuracy | 200 | 50.0 ± 0.0 (3) |" in text
    assert runner.values().count("\n") == 1 + 24
    assert results_table.draw(cells, options, str(tmp_path / "curves")) == []


def test_a_start_that_is_none(tmp_path):
    path = tmp_path / "options.toml"
    path.write_text('starts = ["best"]\n' + OPTIONS)
    with pytest.raises(UserError, match="starts.*pretrained, random"):
        results_table.load(str(path), {"data": "D"})
