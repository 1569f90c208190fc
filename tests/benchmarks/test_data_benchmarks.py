"""The benchmarks of the data factory run on a toy corpus."""

import json
import subprocess
import sys
import types

import pytest

from benchmarks import data_build, reader
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


def test_the_median_of_an_even_number_of_rounds():
    """It was the larger one of the two in the middle."""
    one, two = (
        [{"tokens_per_second": x} for x in rates]
        for rates in ((2.0, 4.0), (2.0, 8.0))
    )
    assert data_build.gain(one, two) == 1.5


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


def refused(module, *arguments):
    """The last line of a command that fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode and "Traceback" not in done.stderr, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_text_that_cannot_be_used_ends_in_one_line(tmp_path):
    """Two of them waited for ever: no target came, no worker was left."""
    builds.write_corpus(tmp_path / "corpus.txt", 400)
    builds.train_spiece(tmp_path, str(tmp_path / "corpus.txt"))
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes("é\n".encode("latin1"))
    spiece = f"--spiece_model_file={tmp_path}/spiece.model"
    blank = f"--input_glob={tmp_path}/blank.txt"
    line = refused("studies.target_rates", spiece, blank)
    assert "wanted text in the first --megabytes=4, found none" in line
    line = refused("studies.target_rates", spiece, blank, "--seq_lens=a")
    assert "--seq_lens must be whole numbers, received 'a'" in line
    latin = f"--input_glob={tmp_path}/latin.txt"
    line = refused("benchmarks.data_build", spiece, latin)
    assert f"{tmp_path}/latin.txt: line 1: not UTF-8" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--suite=reading"], "--suite=reading needs --data_dir"),
        (["--suite=share", "--data_dir=x"], "share needs --output_dir"),
        (["--suite=reading", "--data_dir=/no"], "no finished data there"),
        (["--suite=memory", "--models=x"], "wanted quickstart, 200 MB, found"),
        (["--suite=memory", "--rounds=0"], "a number from 1 on, found '0'"),
    ],
)
def test_arguments_of_the_saves_are_one_line(arguments, message):
    assert message in refused("benchmarks.saves", *arguments)


def test_a_median_needs_a_run():
    """It ended in a stack trace, after the file was read."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.squad_preprocess"),
            *("--input=x", "--spiece_model_file=y", "--repeats=0"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode and "flag --repeats=0" in done.stderr


def test_the_reader(tmp_path, monkeypatch):
    """Lanes of random ids are read, in order and far away."""
    monkeypatch.setattr(reader, "SEGMENTS", 3)
    monkeypatch.setattr(
        reader, "FLAGS", types.SimpleNamespace(batch=4, steps=2)
    )
    found = reader.measure(reader.write_data(str(tmp_path), 6), 6)
    assert found["lanes_per_direction"] == 6
    assert found["tokens_per_second"] > 0 and found["seek_seconds"] > 0
