"""run_ranking.py as a command: flags, one-line errors, a killed process."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers import commands
from tests.training.finetuning.ranking import toy
from tests.training.finetuning.ranking.ranking_runs import contents

pytestmark = pytest.mark.shared
ROOT = pathlib.Path(__file__).resolve().parents[3]


def command(folder, *flags):
    return [
        sys.executable,
        "run_ranking.py",
        f"--topics_file={folder}/topics.tsv",
        f"--documents={folder}/documents.jsonl",
        f"--qrels_file={folder}/qrels",
        "--depth=12",
        "--folds=3",
        *flags,
    ]


def run(*command):
    return commands.run(*command[1:])


@pytest.mark.slow
def test_bm25_and_a_mistake(tmp_path):
    toy.write(tmp_path)
    good = command(tmp_path, f"--model_dir={tmp_path}/out", "--ranker=bm25")
    done = run(*good)
    assert done.returncode == 0, done.stderr
    assert "| bm25 | " in done.stdout
    assert (tmp_path / "out/runs/bm25.run").exists()
    done = run(*good, "--do_export")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "--do_export is of --ranker=knrm or cross_encoder" in done.stderr


@pytest.mark.slow
def test_a_killed_process_goes_on_to_the_same_files(tmp_path, spiece_model):
    toy.write(tmp_path)
    flags = [
        f"--model_config_path={tmp_path}/xlnet.json",
        f"--spiece_model_file={spiece_model}",
        "--layer=1",
        "--nocontrol",
        "--seeds=2",
        "--epochs=2",
        "--max_doc_length=12",
        "--max_query_length=6",
    ]
    whole = command(tmp_path, *flags, f"--model_dir={tmp_path}/whole")
    done = run(*whole)
    assert done.returncode == 0, done.stderr
    killed = command(tmp_path, *flags, f"--model_dir={tmp_path}/killed")
    process = subprocess.Popen(
        killed, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    embeddings = tmp_path / "killed/embeddings"
    while process.poll() is None:
        if embeddings.is_dir() and any(embeddings.glob("*.npz")):
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed/results.json").exists()
    done = run(*killed)
    assert done.returncode == 0, done.stderr
    assert "(30 from" in done.stdout or "from an earlier run" in done.stdout
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
