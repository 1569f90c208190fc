"""`python -m data.inspect` on token streams."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from data.language_modeling import report
from data.pretraining.options import InspectOptions
from tests.data.language_modeling.stream_builds import TEXT, run


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return run(folder, block_megabytes=0.0001)


def record(manifest, number):
    options = InspectOptions(manifest.data_dir, record_number=number)
    return report.describe_record(manifest, options)


def test_records_as_words(manifest):
    first = record(manifest, 0)
    assert "record 0 of" in first and "16 tokens" in first
    assert "the Cat sat <eos> <eos> on the Mat" in first
    assert "the Cat sat\n\non the Mat\n" in first
    total = sum(f.records for f in manifest.select("train"))
    last = record(manifest, total - 1)
    assert last.endswith("it <eos>\n\ntext:\nit\n")
    with pytest.raises(UserError, match=rf"records 0..{total - 1}"):
        record(manifest, total)


def test_everything_is_checked(manifest):
    lines = []
    total = report.check_directory(manifest, lines.append)
    assert total == sum(f.records for f in manifest.files)
    assert len(lines) == len(manifest.files)
    other = dataclasses.replace(manifest.files[-1], sha256="0f")
    files = (*manifest.files[:-1], other)
    with pytest.raises(UserError, match="SHA-256 0f, found .*; build the data"):
        report.check_directory(
            dataclasses.replace(manifest, files=files), lambda line: None
        )


def test_statistics_count_every_line(manifest):
    options = InspectOptions(manifest.data_dir)
    text = report.describe_statistics(manifest, options)
    lines = manifest.split_counts("train").lines
    assert lines == TEXT["train"].count("\n") + 1
    bars = text.split("its end included:\n")[1].split("\n")
    assert sum(int(b.split()[1]) for b in bars) == lines
    words = (TEXT["train"] + "\n").replace("\n", " <eos> ").split()
    p = np.unique(words, return_counts=True)[1] / len(words)
    assert f"entropy {-(p * np.log(p)).sum():.4f} nats" in text
    options = InspectOptions(manifest.data_dir, max_records=1)
    part = report.describe_statistics(manifest, options)
    assert "of the first 16 tokens" in part
