"""`python -m data.inspect`: records as words, checks, statistics."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining import report as record_report
from data.pretraining.options import InspectOptions
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def manifest(folder):
    return builds.run(folder)


def test_record_as_words(manifest, folder):
    options = InspectOptions(
        manifest.data_dir, "record", lane=1, segment=2,
        spiece_model_file=str(folder / "spiece.model"),
    )  # fmt: skip
    text = record_report.describe_record(manifest, options)
    _, row = record_report.find_record(manifest, options)
    assert text.count("[\u2581") + text.count("[") >= row["meta"]["targets"][0]
    assert "lane 1, segment 2, forward" in text
    assert "reuse part: 0: " in text and "<cls> (no target)" in text
    assert text.count("*") >= 1


def test_what_is_not_there(manifest, folder):
    with pytest.raises(
        UserError, match="--segment=5: lanes have segments 0..4"
    ):
        record_report.find_record(
            manifest, InspectOptions(manifest.data_dir, segment=5)
        )
    with pytest.raises(UserError, match="--lane=999: found"):
        record_report.find_record(
            manifest, InspectOptions(manifest.data_dir, lane=999)
        )
    other = folder / "other"
    other.mkdir()
    model = builds.train_spiece(other, str(folder / "corpus.txt"), 100)
    options = InspectOptions(manifest.data_dir, spiece_model_file=model)
    with pytest.raises(UserError, match="not the one of the data"):
        record_report.describe_record(manifest, options)


def test_check(manifest):
    lines = []
    total = record_report.check_directory(manifest, lines.append)
    assert len(lines) == len(manifest.files) + 1
    assert "of the records are empty; targets wanted 0.1667" in lines[-1]
    assert total == sum(f.lanes for f in manifest.files) * 5
    other = dataclasses.replace(manifest.files[-1], sha256="0f")
    files = (*manifest.files[:-1], other)
    with pytest.raises(UserError, match="SHA-256 0f, found .*; build the data"):
        record_report.check_directory(
            dataclasses.replace(manifest, files=files), lambda line: None
        )


def _flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_batches_and_the_vocabularys_copy_are_checked(folder):
    manifest = builds.run(folder, "batches", materialize_batches=6)
    total = record_report.check_directory(manifest, lambda line: None)
    lanes = sum(f.lanes for f in manifest.files) * 5
    assert total == lanes + manifest.batches[0]["records"]
    path = folder / "batches" / manifest.batches[0]["name"]
    _flip(path, 2 * manifest.format.record_size + 100)
    with pytest.raises(
        UserError,
        match="batches6-pass0.tfrecord: record 2: .*build the data again",
    ):
        record_report.check_directory(manifest, lambda line: None)
    _flip(path, 2 * manifest.format.record_size + 100)
    (folder / "batches" / "spiece.json").unlink()
    _flip(folder / "batches" / "spiece.model", 40)
    with pytest.raises(UserError, match="not the one of the data"):
        record_report.check_directory(manifest, lambda line: None)


@pytest.mark.parametrize("mode", ["record", "statistics"])
@pytest.mark.parametrize(
    "changes",
    [{"split": "valid"}, {"split": "dev"}, {"pass_number": 1}],
)
def test_a_choice_without_records_is_one_line(manifest, mode, changes):
    show = {
        "record": record_report.describe_record,
        "statistics": record_report.describe_statistics,
    }[mode]
    options = InspectOptions(manifest.data_dir, mode, **changes)
    with pytest.raises(UserError, match="found splits train, .* passes 0..0"):
        show(manifest, options)
    with pytest.raises(UserError, match="--max_records must be >= 0"):
        InspectOptions(manifest.data_dir, mode, max_records=-1)


def test_statistics(manifest, folder):
    options = InspectOptions(manifest.data_dir, "statistics")
    found = record_report.Statistics(manifest, options)
    tokens = manifest.counts["train_tokens"]
    # A lane's padding or a block's end cannot lose a document.
    assert found.document_lengths.sum() == tokens
    assert len(found.document_lengths) == manifest.counts["train_documents"]
    targets = sum(f.targets for f in manifest.files if f.direction == "forward")
    assert (found.rate * found.real).sum() == pytest.approx(targets)
    sizes = np.arange(len(found.span_lengths))
    assert (found.span_lengths * sizes).sum() == targets
    text = record_report.describe_statistics(manifest, options)
    assert "document lengths" in text and "% of the records are empty" in text
    # What is longer than the last bar of its own is counted, too.
    for lengths in (found.span_lengths, np.arange(30), np.arange(4)):
        counts, names = record_report.run_bins(lengths)
        assert counts.sum() == lengths[1:].sum() and len(names) == len(counts)
        assert names[0] == "1" and names[-1] == f"{len(counts)}+"
