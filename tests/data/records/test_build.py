"""The builder: formats, filters, resume, kills, damage; what it refuses."""

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
from data.pretraining.build import unigram_entropy
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import BuildOptions, ReaderOptions
from data.records import manifest as manifest_lib
from tests.conftest import ROOT
from tests.data import builds
from tests.data.records.built_folders import assert_equal_builds, records_of
from tests.helpers.holding import another_process_holds


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


def test_finished_output_is_left_alone(folder, capsys):
    manifest = builds.run(folder, "done")
    path = os.path.join(manifest.data_dir, "manifest.json")
    before = os.stat(path).st_mtime_ns
    # What a process left that was killed behind its manifest.
    left = os.path.join(manifest.data_dir, "block-00000.json")
    with open(left, "w") as f:
        f.write("{}")
    builds.run(folder, "done", quiet=False)
    assert "nothing to do" in capsys.readouterr().out
    assert not os.path.exists(left)
    assert os.stat(path).st_mtime_ns == before
    with pytest.raises(UserError, match="num_predict: wanted 5, found 16"):
        builds.run(folder, "done", num_predict=5)
    with pytest.raises(UserError, match="spiece_sha256"):
        other = folder / "other"
        other.mkdir()
        model = builds.train_spiece(other, str(folder / "corpus.txt"), 100)
        builds.run(folder, "done", spiece_model_file=model)


def test_foreign_folders_and_locks(folder):
    (folder / "foreign").mkdir()
    (folder / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        builds.run(folder, "foreign")
    (folder / "locked").mkdir()
    with another_process_holds(str(folder / "locked")) as other:
        with pytest.raises(UserError, match=f"in use by process {other.pid} "):
            builds.run(folder, "locked")


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


def test_filters_are_counted(folder):
    path = folder / "filter.txt"
    body = (folder / "corpus.txt").read_text()
    first = body.split("\n\n")[0]
    path.write_text(f"{body}\n{first}\n\n@@ ## $$ %% && the of\n\nthe lamp\n")
    manifest = builds.run(
        folder,
        "filtered",
        input_glob=str(path),
        dedup=True,
        max_symbol_ratio=0.4,
        min_document_tokens=6,
    )
    counts = manifest.counts
    assert counts["documents"] == 43
    assert counts["left_out_duplicate"] == 1
    assert counts["left_out_symbols"] == 1
    assert counts["left_out_short"] == 1
    assert counts["train_documents"] == 40


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"input_glob": "/nowhere/*.txt"}, "matches no file"),
        ({"spiece_model_file": "/nowhere.model"}, "does not exist"),
        ({"reuse_len": 45}, "--reuse_len must lie in 0..43"),
        ({"seq_len": 4}, r"--seq_len must be in \[8, 16384\]"),
        ({"num_predict": 46}, "--num_predict must lie in 1..45"),
        ({"span_unit": "char"}, "--span_unit must be one of"),
        ({"mask_beta": 6}, "--mask_beta must lie"),
        ({"dev_fraction": 1.0}, "--dev_fraction"),
        ({"sampler": "original", "perm_size": 9}, "divides both parts"),
    ],
)
def test_wrong_options(folder, changes, message):
    with pytest.raises(UserError, match=message):
        builds.run(folder, "wrong", **changes)
    assert not (folder / "wrong").exists()


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


def test_materialized_batches_are_the_readers(folder):
    manifest = builds.run(folder, "batches", materialize_batches=6)
    (file,) = manifest.batches
    assert file["name"].startswith("batches6") and "tfrecord" in file["name"]
    raw = np.fromfile(os.path.join(manifest.data_dir, file["name"]), np.uint8)
    raw = raw.reshape(-1, manifest.format.record_size)
    assert manifest.format.find_corrupt(raw) is None
    arrays = manifest.format.decode(raw)
    reader = LaneReader(
        PretrainingManifest.load(manifest.data_dir),
        ReaderOptions(global_batch=6, seed=3, repeat=False),
    )
    chunks = list(reader.chunks())
    real = np.concatenate([c["row_weight"] for c in chunks]).reshape(-1) > 0
    for name in ("input_ids", "ranks"):
        wanted = np.concatenate([c[name] for c in chunks]).reshape(-1, 48)
        assert len(wanted) == file["records"]
        assert (arrays[name] == wanted)[real].all()


def test_unigram_entropy():
    found = unigram_entropy(np.asarray([2, 2, 0]), np.asarray([0, 0, 4]))
    assert found["train_entropy"] == pytest.approx(np.log(2))
    assert found["dev_cross_entropy"] == pytest.approx(np.log(7))


# --- Damage -------------------------------------------------------------------


def _copy(manifest, folder, name):
    path = folder / name
    shutil.copytree(manifest.data_dir, path)
    return path


def _read_all(path):
    manifest = PretrainingManifest.load(str(path))
    reader = LaneReader(manifest, ReaderOptions(global_batch=2, repeat=False))
    for _ in reader.chunks():
        pass


def test_damage_is_named(folder):
    manifest = builds.run(folder, "good")
    name = records_of(manifest.data_dir)[1]
    size = manifest.format.record_size

    def damage(label, change):
        path = _copy(manifest, folder, "damaged-" + label)
        change(path / name)
        return path

    def flip(at):
        def change(file):
            data = bytearray(file.read_bytes())
            data[at] ^= 1
            file.write_bytes(data)

        return change

    with pytest.raises(UserError, match=f"{name}: record 3: wrong checksum"):
        _read_all(damage("bit", flip(3 * size + 100)))
    with pytest.raises(UserError, match=f"{name}: record 2: wrong length"):
        _read_all(damage("length", flip(2 * size + 1)))
    cut = damage("cut", lambda f: f.write_bytes(f.read_bytes()[:-5]))
    with pytest.raises(UserError, match=f"{name}: wanted .* bytes"):
        _read_all(cut)
    with pytest.raises(UserError, match=f"{name} is missing"):
        _read_all(damage("gone", lambda f: f.unlink()))

    def swap(file):  # forward for backward: same size may be, other lanes not
        other = file.parent / name.replace("backward", "forward")
        if other == file:
            other = file.parent / name.replace("forward", "backward")
        data = other.read_bytes()
        wanted = len(file.read_bytes())
        file.write_bytes((data * 2)[:wanted])

    with pytest.raises(UserError, match=f"{name}: record .*: another lane"):
        _read_all(damage("swapped", swap))


def test_ids_out_of_range_are_named(folder):
    manifest = builds.run(folder, "ids")
    name = manifest.select("train", "forward", 0)[0].name
    path = os.path.join(manifest.data_dir, name)
    raw = np.fromfile(path, np.uint8).reshape(-1, manifest.format.record_size)
    arrays = manifest.format.decode(raw)
    arrays["input_ids"][4, 7] = manifest.vocab_size
    manifest.format.encode(arrays).tofile(path)
    with pytest.raises(UserError, match=f"{name}: record 4: an id"):
        _read_all(manifest.data_dir)


@pytest.mark.parametrize(
    "field,value",
    [
        ("format_version", 9),
        ("vocab_size", 7),
        ("symbols", {"cls": 3}),
        ("segments_per_lane", {"train": 4, "dev": 5}),
        ("files", []),
        ("options", {"seq_len": 48}),
    ],
)
def test_changed_manifest_fields(folder, field, value):
    manifest = builds.run(folder, "fields")
    copy = _copy(manifest, folder, f"fields-{field}")
    path = copy / "manifest.json"
    stored = json.loads(path.read_text())
    stored[field] = value
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=f"manifest.json.*{field}"):
        _read_all(copy)


def test_a_manifest_that_someone_else_wrote_is_one_line(folder):
    """Its sums are right, its values are of other types or lead elsewhere."""
    manifest = builds.run(folder, "fields")
    copy = _copy(manifest, folder, "fields-forged")
    value = json.loads((copy / "manifest.json").read_text())
    for inside, field, new in (
        (value["files"][0], "name", "../spiece.model"),
        (value["files"][0], "lanes", None),
        (value["files"][0], "tokens", "x"),
        (value["files"][0], "segments", -1),
        (value["options"], "reuse_len", 1 << 40),
        (value["options"], "reuse_len", [1]),
        (value, "segments_per_lane", []),
        (value, "batches", [{"name": "/dev/zero", "bytes": 0}]),
    ):
        old, inside[field] = inside[field], new
        value["checksums"] = manifest_lib._checksums(
            {k: v for k, v in value.items() if k != "checksums"}
        )
        (copy / "manifest.json").write_text(json.dumps(value))
        with pytest.raises(UserError, match="json: (a field is|`options` is)"):
            PretrainingManifest.load(str(copy))
        inside[field] = old


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


def test_options_identity_leaves_out_how_it_was_run():
    a = BuildOptions("a", "b", "c", num_workers=4).identity()
    assert a == BuildOptions("x", "y", "z").identity()
