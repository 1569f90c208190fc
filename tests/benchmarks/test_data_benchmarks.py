"""The benchmarks of the data factory run on a toy corpus."""

import json
import subprocess
import sys
import types

from benchmarks import reader
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


def test_the_reader(tmp_path, monkeypatch):
    """Lanes of random ids are read, in order and far away."""
    monkeypatch.setattr(reader, "SEGMENTS", 3)
    monkeypatch.setattr(
        reader, "FLAGS", types.SimpleNamespace(batch=4, steps=2)
    )
    found = reader.measure(reader.write_data(str(tmp_path), 6), 6)
    assert found["lanes_per_direction"] == 6
    assert found["tokens_per_second"] > 0 and found["seek_seconds"] > 0
