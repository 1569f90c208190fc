"""The runner of Tables 5 and 8: rows, flags, resumption."""

import json
import os
import subprocess
import sys

import pytest

from studies import lm_ablation
from tests.conftest import ROOT
from tests.test_run_lm import data

__all__ = ["data"]  # a fixture


def test_the_rows_are_the_papers():
    rows = {s.name: s for s in lm_ablation.SETTINGS}
    assert len(rows) == len(lm_ablation.SETTINGS) == 11
    assert rows["recurrence-shaw-full"].paper == (27.94, 27.94, 256)
    longer = rows["none-relative-full-long"]
    assert longer.table == 8 and round(128 * longer.stretch) == 176
    assert round(128 * rows["none-relative-half-long"].stretch) == 172
    best = [s.paper[1] for s in lm_ablation.SETTINGS if s.table == 5]
    assert min(best) == 26.77 and max(best) == 31.16


@pytest.mark.slow
def test_rows_are_trained_once_and_a_failure_is_a_line(data, tmp_path):
    tiny = ("--n_layer=1", "--d_model=8", "--n_head=2", "--d_head=4")
    command = [
        *(sys.executable, "-m", "studies.lm_ablation", "--tables=8"),
        *(f"--data_dir={data / 'word'}", f"--output_dir={tmp_path}"),
        *("--steps=2", "--save_steps=2", "--seeds=1", "--segment=8"),
        *("--sweep_max=8", "--run_flag=--d_inner=8"),
    ]
    command += [f"--run_flag={flag}" for flag in tiny]
    numbers = {"init": 9.0, "best": 8.0, "attention": 40.0, "seconds": 1.0}
    for name in ("recurrence-relative-half", "recurrence-relative-full"):
        done = tmp_path / name / "seed-0"
        done.mkdir(parents=True)
        (done / "result.json").write_text(json.dumps(numbers))
    # A file where a folder must be: this row fails, the others go on.
    (tmp_path / "none-relative-half-long").mkdir()
    (tmp_path / "none-relative-half-long" / "seed-0").mkdir()
    (tmp_path / "none-relative-half-long" / "seed-0" / "model").write_text("")
    out = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    table = (tmp_path / "ablation.md").read_text()
    assert table in out
    lines = {
        line.split(" | ")[0].strip("| "): line for line in table.splitlines()
    }
    assert "**8.00** (8.00 ± 0.00, 1)" in lines["recurrence-relative-half"]
    assert "failed:" in lines["none-relative-half-long"]
    assert "failed" not in lines["none-relative-full-long"]
    about = json.loads(
        (tmp_path / "none-relative-full-long/seed-0/model")
        .joinpath("transformer_xl_config.json")
        .read_text()
    )
    assert about["mem_len"] == 0 and about["d_inner"] == 8
    assert os.listdir(done) == ["result.json"]
