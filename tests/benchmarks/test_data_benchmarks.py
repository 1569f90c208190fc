"""The benchmarks of the data factory run on a toy corpus."""

import json
import subprocess
import sys

from tests.conftest import ROOT
from tests.helpers.runs import builds


def run(folder, module, *arguments):
    path = folder / "corpus.txt"
    if not path.exists():
        builds.write_corpus(path, 400)
        builds.train_spiece(folder, str(path))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            module,
            f"--input_glob={path}",
            f"--spiece_model_file={folder}/spiece.model",
            *arguments,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_profile_of_the_builder(tmp_path):
    assert run(tmp_path, "benchmarks.data_build", "--suite=profile")["profile"]


def test_target_rates(tmp_path):
    found = run(
        tmp_path,
        "studies.target_rates",
        "--seq_lens=64",
        "--targets=60000",
    )["results"][0]
    assert found["lost_percent"] < 15
    off = [abs(x - 1) for x in found["by_pieces_per_word"].values() if x]
    assert max(off) < 0.06
