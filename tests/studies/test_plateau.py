"""How long a pretraining stays on the unigram plateau."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from common.errors import UserError
from studies import plateau, pretrain_variant
from studies.kinds.registry import load
from studies.runner.study_file import path_of
from training.reporting.loss_log import LossLog

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_numbers_of_a_run(tmp_path):
    losses = np.concatenate([np.full(100, 6.5), np.full(100, 5.0)])
    LossLog(str(tmp_path), 0).append(1, ["loss"], losses[:, np.newaxis])
    found = plateau.measured(str(tmp_path), 6.5)
    # After k of the last 100 the mean of 20 is 6.5 - 1.5 k / 20 < 6.0.
    assert found == {
        "step": 107,
        "share": 107 / 200,
        "left": 1,
        "gain": pytest.approx(1.5),
    }


def test_steps_without_a_target_are_no_gain(tmp_path):
    losses = np.full([60, 1], 6.25)
    losses[40::2] = 0.0
    LossLog(str(tmp_path), 0).append(1, ["loss"], losses)
    found = plateau.measured(str(tmp_path), 6.5)
    assert found == {"step": 60, "share": 1.0, "left": 0, "gain": 0.25}


def test_its_help_waits_for_no_tensorflow():
    code = "import sys, studies.plateau; print('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_a_run_that_never_leaves_counts_all_its_steps(tmp_path):
    losses = np.full([50, 1], 6.25)
    LossLog(str(tmp_path), 0).append(1, ["loss"], losses)
    found = plateau.measured(str(tmp_path), 6.5)
    assert found == {"step": 50, "share": 1.0, "left": 0, "gain": 0.25}


def test_rows_of_the_study_differ_in_settings_alone():
    options = load(path_of("plateau"), {"out": "OUT", "text": "TEXT"})
    assert options.pretrain_seeds == 5 and options.tasks["plateau"].in_place
    flags = options.pretrain.flags
    by_key = {row.key: flags | row.pretrain for row in options.rows}
    assert by_key["bert"]["init_std"] == 0.02
    for name, values in by_key.items():
        assert values["d_model"] == 128 and values["train_steps"] == 800, name
        assert values["train_batch_size"] in (16, 32, 64), name
    records = {row.key: row.records for row in options.rows if row.records}
    single = [key for key, flags in records.items() if "max_span" in flags]
    assert [key.endswith("single") for key in single] == [True] * 22
    kinds = {v["model_type"] for v in by_key.values()}
    known = {"bert", "albert", "modernbert", "xlnet"}
    assert kinds == known | set(pretrain_variant.VARIANTS)
    # Shorter rows come in greater number: as many tokens.
    short = [key for key, flags in records.items() if "seq_len" in flags]
    assert short == [
        "short-single",
        "short-rate-3e-3-single",
        "shorter-single",
        "albert-short-single",
    ]
    for key in short:
        assert records[key]["seq_len"] * by_key[key]["train_batch_size"] == 1024


def test_the_command_reads_the_run_and_refuses_others(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(UserError, match="wanted the --model_dir of a run"):
        plateau.write(str(run))
    (run / "run.json").write_text(json.dumps({"flags": {}}))
    with pytest.raises(UserError, match="wanted `data_dir` among the flags"):
        plateau.write(str(run))
