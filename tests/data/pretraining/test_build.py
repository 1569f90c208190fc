"""What a build is made of: files, blocks, changed text, empty records."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining import build
from data.pretraining import report as record_report
from data.pretraining.block_builder import BlockBuilder
from data.pretraining.build import unigram_entropy
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import InspectOptions, ReaderOptions
from data.records.layout import block_summary_name
from tests.conftest import ROOT
from tests.data.records.built_folders import assert_equal_builds
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


def split_files(folder, name, sizes=(1,)):
    """The corpus in files of so many documents, in turns."""
    documents = (folder / "corpus.txt").read_text().strip("\n").split("\n\n")
    out = folder / name
    out.mkdir()
    number = 0
    while documents:
        count = sizes[number % len(sizes)]
        text = "\n\n".join(documents[:count]) + "\n\n"
        (out / f"{number:04d}.txt").write_text(text)
        documents, number = documents[count:], number + 1
    (folder / f"{name}.txt").write_text(
        "".join(p.read_text() for p in sorted(out.iterdir()))
    )
    return str(out / "*.txt"), str(folder / f"{name}.txt")


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(1,), (3, 1, 7)])
def test_files_of_documents_give_the_bytes_of_one_file(folder, sizes):
    builds.run(folder, "first")
    name = f"parts{len(sizes)}"
    many, one = split_files(folder, name, sizes)
    values = {"dev_fraction": 0.1, "num_workers": 1}
    a = builds.run(folder, name + "-a", input_glob=one, **values)
    b = builds.run(
        folder, name + "-b", input_glob=many, **values | {"num_workers": 2}
    )
    assert_equal_builds(a.data_dir, b.data_dir)
    assert a.files == b.files
    assert len({f.block for f in a.files}) > 2
    # Before, each file was filled up to whole lanes of five segments.
    assert a.empty_share("train") == b.empty_share("train") < 0.1


# --- Changed text -------------------------------------------------------------


def change(path, old=" the ", new=" teh "):
    """Other text of the same size."""
    path = pathlib.Path(path)
    before = path.read_text()
    after = before.replace(old, new)
    assert before != after and len(before) == len(after)
    path.write_text(after)


def test_a_finished_build_of_other_text_is_refused(folder, tmp_path):
    shutil.copy(
        builds.run(folder, "first").data_dir + "/spiece.model", tmp_path
    )
    builds.write_corpus(tmp_path / "corpus.txt")
    manifest = builds.run(tmp_path)
    assert len(manifest.text_sha256) > 2
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    change(tmp_path / "corpus.txt")
    with pytest.raises(UserError, match="block 0 .*wanted SHA-256 .*, found"):
        builds.run(tmp_path)
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before
    change(tmp_path / "corpus.txt", " teh ", " the ")
    assert builds.run(tmp_path).text_sha256 == manifest.text_sha256


@pytest.mark.parametrize("dedup", [False, True])
def test_an_interrupted_build_never_mixes_texts(
    folder, tmp_path, monkeypatch, dedup
):
    """Stopped after three blocks; the first document changes.

    The last one is its copy, and with `dedup` none any more.
    """
    shutil.copy(
        builds.run(folder, "first").data_dir + "/spiece.model", tmp_path
    )
    path = tmp_path / "corpus.txt"
    builds.write_corpus(path, 80)
    text = path.read_text()
    path.write_text(text + "\n" + text.split("\n\n")[0] + "\n")
    original = BlockBuilder.build
    built = []

    def stop(self, block):
        if len(built) == 3:
            raise KeyboardInterrupt
        built.append(block)
        return original(self, block)

    monkeypatch.setattr(BlockBuilder, "build", stop)
    with pytest.raises(KeyboardInterrupt):
        builds.run(tmp_path, dedup=dedup)
    assert (tmp_path / "out" / block_summary_name(2)).exists()
    text = path.read_text()
    changed = text.replace("document 0 begins", "document 0 BEGINS", 1)
    assert len(changed) == len(text) and changed != text
    path.write_text(changed)
    monkeypatch.setattr(BlockBuilder, "build", original)
    lines = []
    options = _options(tmp_path, dedup)
    found = build.build(options, lines.append)
    assert any("are built again" in line for line in lines)
    wanted = builds.run(tmp_path, "whole", dedup=dedup)
    assert found.files == wanted.files
    assert_equal_builds(found.data_dir, wanted.data_dir)


def _options(folder, dedup):
    from data.pretraining.options import BuildOptions

    return BuildOptions(
        input_glob=str(folder / "corpus.txt"),
        spiece_model_file=str(folder / "spiece.model"),
        output_dir=str(folder / "out"),
        seq_len=48,
        reuse_len=20,
        segments_per_lane=5,
        block_megabytes=0.004,
        seed=3,
        dedup=dedup,
    )


def test_text_that_changes_while_it_is_built(folder, tmp_path, monkeypatch):
    """A block's neighbour was read before the change, its own text after."""
    shutil.copy(
        builds.run(folder, "first").data_dir + "/spiece.model", tmp_path
    )
    path = tmp_path / "corpus.txt"
    lines = []
    for number in range(3):  # three blocks of one document
        lines += [f"the lamp {number} of {i} the tower ." for i in range(200)]
        lines.append("")
    path.write_text("\n".join(lines))
    original = BlockBuilder.build

    def build_and_change(self, block):
        summary = original(self, block)
        if block == 1:
            change(path, "the lamp", "the lump")
        return summary

    monkeypatch.setattr(BlockBuilder, "build", build_and_change)
    with pytest.raises(UserError, match="was changed during the build"):
        builds.run(tmp_path)
    monkeypatch.setattr(BlockBuilder, "build", original)
    found = builds.run(tmp_path)
    wanted = builds.run(tmp_path, "whole")
    assert found.files == wanted.files


def test_thousands_of_other_files_are_named_shortly(folder):
    builds.run(folder, "first")
    many, one = split_files(folder, "named")
    builds.run(folder, "named-out", input_glob=many)
    with pytest.raises(UserError, match="wanted 1 files, found 40; file 0"):
        builds.run(folder, "named-out", input_glob=one)


# --- Bs of blocks with one document -------------------------------------------


def test_a_dev_block_of_one_document_takes_bs_from_a_neighbour(folder):
    builds.run(folder, "first")
    path = folder / "long.txt"
    lines = []
    for number in range(24):
        lines += [f"the lamp {number} of {i} the tower ." for i in range(60)]
        lines.append("")
    path.write_text("\n".join(lines))
    manifest = builds.run(
        folder,
        "dev",
        input_glob=str(path),
        dev_fraction=0.2,
        block_megabytes=0.003,
        segments_per_lane=2,
    )
    files = [f for f in manifest.files if f.split == "dev"]
    assert len(files) >= 4
    # One dev document per block: before, every B followed A.
    share = sum(f.is_next for f in files) / sum(f.segments for f in files)
    assert 0.3 < share < 0.7


# --- Empty records ------------------------------------------------------------


def test_too_many_empty_records_are_an_error(folder):
    builds.run(folder, "first")
    values = {"segments_per_lane": 60, "block_megabytes": 0.002}
    with pytest.raises(UserError, match="of the train records are empty") as e:
        builds.run(folder, "hollow", **values)
    assert "--segments_per_lane" in str(e.value)
    assert "--max_empty_share=" in str(e.value)
    assert not (folder / "hollow" / "manifest.json").exists()
    lines = []
    # The blocks are there: going on is quick and changes nothing.
    manifest = builds.run(folder, "hollow", max_empty_share=0.9, **values)
    share = manifest.empty_share("train")
    assert 0.2 < share < 0.9
    record_report.check_directory(manifest, lines.append)
    assert f"train: {share:.1%} of the records are empty" in lines[-1]
    options = InspectOptions(manifest.data_dir, "statistics")
    text = record_report.describe_statistics(manifest, options)
    assert f"{share:.1%} of the records are empty" in text


def test_unigram_entropy():
    found = unigram_entropy(np.asarray([2, 2, 0]), np.asarray([0, 0, 4]))
    assert found["train_entropy"] == pytest.approx(np.log(2))
    assert found["dev_cross_entropy"] == pytest.approx(np.log(7))


def call(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True
    )


def test_workers_import_no_tensorflow():
    code = (
        "import sys, data.pretraining.build, data.records.beam, data.pretraining.lanes\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert call("-c", code).returncode == 0


@pytest.fixture(scope="module")
def target_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def test_materialized_batches_are_the_readers(target_folder):
    manifest = builds.run(target_folder, "batches", materialize_batches=6)
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


def test_a_field_of_json_lines_needs_a_file_of_them(tmp_path):
    with pytest.raises(UserError, match="--text_field=body is of JSON lines"):
        builds.run(tmp_path, text_field="body")
    assert not (tmp_path / "out" / "manifest.json").exists()
