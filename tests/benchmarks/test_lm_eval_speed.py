"""The table of evaluation speed, at a size where only its form is tested."""

import subprocess
import sys

import pytest

from benchmarks import lm_eval_speed
from tests.conftest import ROOT


def test_ratios_of_a_line():
    cells = lm_eval_speed.row(800, [0.001, 0.4, 0.2])
    assert cells[4:] == ["400", "0.50", "200", "0.25", "363"]
    assert lm_eval_speed.row(10, [1, 2, 3])[-1] == ""


@pytest.mark.slow
def test_the_command_times_every_length(tmp_path):
    sizes = ("--n_layer=1", "--d_model=8", "--n_head=2", "--vocab_size=9")
    subprocess.run(
        [sys.executable, "-m", "benchmarks.lm_eval_speed", *sizes]
        + ["--lengths=6,9", "--segment=4", "--rows=2", "--turns=1"]
        + [f"--output_dir={tmp_path}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    lines = (tmp_path / "lm_eval_speed.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["6", "9"]
    assert all(float(x) > 0 for x in lines[1].split("\t")[1:4])
