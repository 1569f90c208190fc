"""Any place of a stream is read; damage is named."""

import pathlib

import numpy as np
import pytest

from common.errors import UserError
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.stream import TokenStream
from tests.data.language_modeling.stream_builds import (
    TEXTS,
    run,
    stream,
    stream_of,
)


def test_damaged_records_are_named(tmp_path):
    manifest = run(tmp_path)
    path = pathlib.Path(manifest.data_dir, manifest.files[0].name)
    good = path.read_bytes()
    size = manifest.format.record_size
    bad = bytearray(good)
    bad[2 * size + 90] ^= 1
    path.write_bytes(bad)
    with pytest.raises(UserError, match="record 2: wrong checksum"):
        stream(manifest, "train")
    path.write_bytes(good[size : 2 * size] + good[:size] + good[2 * size :])
    with pytest.raises(UserError, match="record 0: another block or record"):
        stream(manifest, "train")
    path.write_bytes(good[:-7])
    with pytest.raises(UserError, match="wanted .* bytes"):
        StreamManifest.load(manifest.data_dir)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """Several blocks, records shorter than segments and longer."""
    folder = tmp_path_factory.mktemp("streams")
    return run(folder, texts=TEXTS, block_megabytes=0.0002)


def test_any_place_is_read(manifest):
    whole = stream_of(manifest)
    stream = TokenStream(manifest, "train")
    assert len(manifest.select("train")) > 3
    rng = np.random.default_rng(0)
    for _ in range(40):
        start = int(rng.integers(0, len(whole) - 1))
        count = int(rng.integers(1, len(whole) - start + 1))
        assert (stream.read(start, count) == whole[start : start + count]).all()
