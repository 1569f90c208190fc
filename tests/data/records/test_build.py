"""The factory: formats, resume, kills, texts of one document."""

import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining.lanes import LaneReader
from data.pretraining.options import ReaderOptions
from tests.conftest import ROOT
from tests.data.records.built_folders import assert_equal_builds, records_of
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def test_workers_and_repeats_give_the_same_bytes(folder):
    one = builds.run(folder, "one", dev_fraction=0.1)
    two = builds.run(folder, "two", dev_fraction=0.1, num_workers=2)
    assert_equal_builds(one.data_dir, two.data_dir)
    assert one.to_json() == two.to_json()
    assert one.has_dev() and one.unigram["dev_cross_entropy"] > 0


# SHA-256 of all records, written before the layout stood apart from the factory.
_BYTES = {
    "plain": (
        {"dev_fraction": 0.1, "num_passes": 2, "materialize_batches": 6},
        "28ff3dd81668645af53203205b614f8c7c34b97b3ee493137c7adf9932be0003",
    ),
    "masks": (
        {"dedup": True, "min_document_tokens": 6, "materialize_masks": True},
        "bd3727dfe8549da551cf7d920f0d51913e555cda86920afa5801eccbacf57a70",
    ),
    "walk": (
        {"reuse_len": 0, "bi_data": False},
        "56590014671921f40547a4772618373d27dbc92912d8e53d0dcd14c6785c6950",
    ),
    "original": (
        {"sampler": "original", "reuse_len": 24, "perm_size": 12},
        "b8cc08710400658c1a3ef82c1ddeb68e48fb71c763b22fa422fe3d86196c039e",
    ),
}


@pytest.mark.parametrize("name", _BYTES)
def test_the_same_seed_gives_the_bytes_of_before(folder, name):
    changes, wanted = _BYTES[name]
    manifest = builds.run(folder, "bytes-" + name, **changes)
    digest = hashlib.sha256()
    for file in records_of(manifest.data_dir):
        with open(os.path.join(manifest.data_dir, file), "rb") as f:
            digest.update(f.read())
    assert digest.hexdigest() == wanted


def test_formats_give_the_same_records(folder):
    wanted = builds.run(folder, "text", block_megabytes=1)
    text = (folder / "corpus.txt").read_text()
    packed = folder / "corpus2.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    lines = [json.dumps({"text": d}) for d in text.split("\n\n") if d.strip()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    for name in (packed, folder / "corpus.jsonl"):
        found = builds.run(
            folder, name.name + "-out", input_glob=str(name), block_megabytes=1
        )
        assert_equal_builds(wanted.data_dir, found.data_dir)


def test_empty_corpus(folder):
    path = folder / "empty.txt"
    path.write_text("\n \n\n")
    with pytest.raises(UserError, match="no text is left"):
        builds.run(folder, "empty", input_glob=str(path))
    assert not (folder / "empty" / "manifest.json").exists()


def test_one_document_and_long_word(folder, capsys):
    path = folder / "single.txt"
    path.write_text("lamp" * 300 + "\n")
    manifest = builds.run(folder, "single", input_glob=str(path), quiet=False)
    assert "spans are made of tokens" in capsys.readouterr().out
    assert manifest.counts["train_documents"] == 1
    # No other document: B always follows A.
    files = [f for f in manifest.files if f.segments > 2]
    assert all(f.is_next >= f.segments - 2 for f in files)


def test_original_sampler_and_orders(folder):
    manifest = builds.run(
        folder, "original", sampler="original", reuse_len=24, perm_size=12
    )
    reader = LaneReader(manifest, ReaderOptions(global_batch=6, read_ahead=4))
    chunk = next(reader.chunks())
    assert (chunk["target_weights"].sum(-1) <= manifest.num_predict).all()
    full = builds.run(folder, "ordered", order_context=True)
    chunk = next(LaneReader(full, ReaderOptions(global_batch=6)).chunks())
    real = chunk["input_mask"] == 1
    second = np.arange(48) >= full.reuse_len
    low = np.where(second, full.reuse_len + 1, 0)
    assert (chunk["ranks"] >= low)[real].all()
    none = builds.run(folder, "nofunc", functional_as_context=True)
    chunk = next(LaneReader(none, ReaderOptions(global_batch=6)).chunks())
    cls = chunk["input_ids"] == none.symbols.cls
    assert (chunk["ranks"][cls] == none.reuse_len).all()


# --- Kills --------------------------------------------------------------------


def _command(folder, out):
    return [
        sys.executable,
        "-m",
        "data.create_pretraining_data",
        f"--input_glob={folder}/corpus.txt",
        f"--spiece_model_file={folder}/spiece.model",
        f"--output_dir={out}",
        "--seq_len=48",
        "--reuse_len=20",
        "--segments_per_lane=5",
        "--block_megabytes=0.02",
        "--num_passes=2",
        "--num_workers=2",
    ]


@pytest.mark.slow
def test_kill_at_random_moments(tmp_path):
    corpus_file = builds.write_corpus(tmp_path / "corpus.txt", 1500)
    builds.train_spiece(tmp_path, corpus_file)
    begin = time.time()
    subprocess.run(_command(tmp_path, tmp_path / "calm"), cwd=ROOT, check=True)
    whole = time.time() - begin
    chance = random.Random(1)
    killed = 0
    while killed < 20:
        process = subprocess.Popen(
            _command(tmp_path, tmp_path / "killed"),
            cwd=ROOT,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )
        try:
            process.wait(chance.uniform(0.3, 0.6) * whole)
        except subprocess.TimeoutExpired:
            killed += 1
            # Every second time only the parent: workers must end by themselves.
            if killed % 2:
                os.kill(process.pid, signal.SIGKILL)
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            assert process.returncode == 0
            assert_equal_builds(tmp_path / "calm", tmp_path / "killed")
            shutil.rmtree(tmp_path / "killed")
    subprocess.run(
        _command(tmp_path, tmp_path / "killed"), cwd=ROOT, check=True
    )
    assert_equal_builds(tmp_path / "calm", tmp_path / "killed")
    leftover = [n for n in os.listdir(tmp_path / "killed") if ".tmp-" in n]
    assert not leftover
