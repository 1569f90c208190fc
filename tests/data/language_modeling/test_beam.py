"""Beam's DirectRunner writes the streams of a local build."""

import pytest

from tests.data.language_modeling.stream_builds import run
from tests.data.records.built_folders import HAS_BEAM, assert_equal_builds


@pytest.mark.slow
@pytest.mark.skipif(not HAS_BEAM, reason="needs requirements-beam.txt")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unit", ["word", "byte"])
def test_direct_runner_writes_the_same_bytes(tmp_path, unit):
    options = {"unit": unit, "block_megabytes": 0.0001}
    local = run(tmp_path, "local", **options)
    beam = run(
        tmp_path,
        "beam",
        runner="beam",
        beam_options="--runner=DirectRunner --direct_num_workers=1",
        **options,
    )
    assert len(local.files) > 3
    assert_equal_builds(local.data_dir, beam.data_dir)
    assert local.to_json() == beam.to_json()
