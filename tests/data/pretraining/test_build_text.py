"""What a build is made of: files, blocks, changed text, empty records."""

import pathlib
import shutil
import tarfile

import numpy as np
import pytest

from common.errors import UserError
from data.corpus import corpus_plan
from data.corpus import documents as corpus
from data.pretraining import build
from data.pretraining import report as record_report
from data.pretraining.block_builder import BlockBuilder
from data.pretraining.lanes import LaneReader
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import InspectOptions, ReaderOptions
from data.records.layout import block_summary_name
from tests.data import builds
from tests.data.records.built_folders import assert_equal_builds
from tests.golden import FIRST_FORMAT


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


@pytest.mark.parametrize("name", ["text", "gzip", "jsonl"])
def test_runs_cover_all_files_in_order(tmp_path, name):
    import gzip
    import json

    rng = np.random.default_rng(0)
    paths, wanted = [], []
    for number in range(40):
        lines = [
            f"{number} {i} " + "x" * int(rng.integers(60)) for i in range(4)
        ]
        data = "\n".join(lines) + "\n"
        wanted.append(lines)
        if name == "jsonl":
            data = json.dumps({"text": data}) + "\n"
        elif number % 3:
            data += "\n"
        path = (
            tmp_path / f"{number:02d}.{'jsonl' if name == 'jsonl' else 'txt'}"
        )
        if name == "gzip":
            path = path.with_suffix(".txt.gz")
            path.write_bytes(gzip.compress(data.encode()))
        else:
            path.write_text(data)
        paths.append(str(path))
    (tmp_path / "empty.txt").write_text("")
    paths.insert(7, str(tmp_path / "empty.txt"))
    runs = corpus_plan.plan_corpus(paths, 900)
    assert 3 < len(runs) < 20
    assert max(len(parts) for parts in runs) > 3
    reader, found = corpus.BlockReader(), []
    for parts in runs:
        documents, digest = corpus.read_run(parts, reader)
        assert digest == corpus.read_parts(parts, reader)[1]
        found += [d.lines for d in documents]
    assert found == wanted
    size = [sum(p.end - p.start for p in parts) for parts in runs]
    assert min(size[:-1]) >= 900 and max(size) < 900 + 600


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


def test_the_report_gives_rates_and_empty_records(folder, capsys):
    manifest = builds.run(folder, "report", quiet=False, dev_fraction=0.2)
    text = capsys.readouterr().out
    for split in ("train", "dev"):
        wanted, found = manifest.target_rates(split)
        assert f"{split}: {manifest.empty_share(split):.1%} of the" in text
        assert f"wanted {wanted:.4f} of the tokens, found {found:.4f}" in text
    assert manifest.target_rates("train")[1] == pytest.approx(1 / 6, rel=0.03)
    assert "are lost" not in text
    builds.run(folder, "few", quiet=False, num_predict=4)
    assert "of the targets are lost: --num_predict=4" in capsys.readouterr().out


# --- Records of format 1 ------------------------------------------------------

# Of all batches of two rows with seed 1, made by the code of format 1.
_DIGESTS = {
    "": "dfc0973f00a6555071c8ddcd3ccaee548d42d9dd36d7fdb6c9bd9aaf14590195",
    "resample_permutation": (
        "63cb52baf49166c7438859e9e18ca8b8db74ed66da8da5586b19f11e9fe43a4b"
    ),
}


@pytest.fixture(scope="module")
def first_format(tmp_path_factory):
    path = tmp_path_factory.mktemp("format1")
    with tarfile.open(FIRST_FORMAT) as archive:
        archive.extractall(path, filter="data")
    return str(path / "records")


@pytest.mark.parametrize("draw", _DIGESTS)
def test_records_of_format_1_are_read_as_they_were(first_format, draw):
    import hashlib

    manifest = PretrainingManifest.load(first_format)
    assert manifest.format_version == 1
    options = ReaderOptions(
        global_batch=2, seed=1, repeat=False, **({draw: True} if draw else {})
    )
    digest = hashlib.sha256()
    for chunk in LaneReader(manifest, options).chunks():
        for name in sorted(chunk):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(chunk[name]).tobytes())
    assert digest.hexdigest() == _DIGESTS[draw]


def test_targets_of_format_1_are_not_drawn_anew(first_format):
    manifest = PretrainingManifest.load(first_format)
    options = ReaderOptions(global_batch=2, resample_targets=True)
    with pytest.raises(UserError, match="found .* of --sampler=context"):
        LaneReader(manifest, options)


def test_format_1_is_inspected(first_format):
    lines = []
    record_report.check_directory(
        PretrainingManifest.load(first_format), lines.append
    )
    assert "found not known" in lines[-1]
