"""The study of Tables 5 and 8: rows, flags, resumption."""

import json
import os

import pytest

from studies.kinds.registry import load
from studies.runner.study_file import path_of
from tests.helpers import commands
from tests.helpers.runs.lm import data
from tests.studies.toy_studies import tiny

__all__ = ["data"]  # a fixture
TINY = {
    "n_layer = 3": "n_layer = 1",
    "d_model = 96": "d_model = 8",
    "n_head = 4": "n_head = 2",
    "d_head = 24": "d_head = 4",
    "d_inner = 384": "d_inner = 8",
    "seq_len = 32": "seq_len = 8",
    "mem_len = 32": "mem_len = 8",
    "sweep_step = 32": "sweep_step = 8",
    "sweep_max = 512": "sweep_max = 8",
    "train_steps = 1000": "train_steps = 2",
    "warmup_steps = 100": "warmup_steps = 0",
    "iterations = 50": "iterations = 2",
    "save_steps = 500": "save_steps = 2",
    "pretrain_seeds = 3": "pretrain_seeds = 1",
    "speed_steps = 20": "speed_steps = 2",
}


def test_the_rows_are_the_papers():
    given = load(path_of("language_model"), {"data": "D"})
    rows = {row.key: row for row in given.rows}
    assert len(rows) == 11
    found = rows["recurrence-shaw-full"].paper
    assert list(found.values()) == [27.94, 27.94, 256]
    best = [row.paper["PPL best"] for row in given.rows[:-2]]
    assert min(best) == 26.77 and max(best) == 31.16
    for name, paper in (("full", 176), ("half", 172)):
        row = rows[f"none-relative-{name}-long"]
        segment = row.pretrain["seq_len"]
        assert segment == round(paper / 128 * given.pretrain.flags["seq_len"])
        assert row.tasks["sweep"]["seq_len"] == segment


@pytest.mark.slow
def test_rows_are_trained_once_and_a_failure_is_a_line(data, tmp_path):
    text = tiny("language_model", TINY)
    head, *rows = text.split("[[rows]]")
    kept = [
        row
        for row in rows
        if row.split('"')[1]
        in (
            "recurrence-relative-full",
            "none-relative-full-long",
            "none-relative-half-long",
        )
    ]
    path = tmp_path / "study.toml"
    path.write_text("[[rows]]".join([head, *kept]))
    out = tmp_path / "out"
    # A file where a folder must be: this row fails, the others go on.
    (out / "none-relative-half-long-0").mkdir(parents=True)
    (out / "none-relative-half-long-0" / "run").write_text("")
    command = ["-m", "studies.run", f"--study={path}"]
    command += [f"--data_dir={data / 'word'}", f"--output_dir={out}"]
    done = commands.run(*command)
    assert done.returncode == 0, done.stderr[-3000:]
    table = (out / "table.md").read_text()
    assert table in done.stdout
    lines = {
        line.split(" | ")[0].strip("| "): line for line in table.splitlines()
    }
    assert lines["none-relative-half-long"].count("failed:") == 3
    for name in ("recurrence-relative-full", "none-relative-full-long"):
        assert "failed" not in lines[name] and "not run" not in lines[name]
    run = out / "none-relative-full-long-0" / "run"
    about = json.loads((run / "transformer_xl_config.json").read_text())
    assert about["mem_len"] == 0 and about["d_inner"] == 8
    swept = json.loads((run / "sweep_valid" / "sweep.json").read_text())
    assert f"{swept['best']:.2f}" in lines["none-relative-full-long"]
    before = {
        name: os.stat(out / name / "result.json").st_mtime_ns
        for name in ("recurrence-relative-full-0", "speed/pretrain-xlnet-2")
    }
    again = commands.run(*command)
    assert again.returncode == 0, again.stderr[-3000:]
    for name, at in before.items():
        assert os.stat(out / name / "result.json").st_mtime_ns == at
