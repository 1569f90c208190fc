"""Beam's DirectRunner writes the bytes of a local build."""

import importlib.util

import pytest

from common.errors import UserError
from tests.data import builds
from tests.data.records.test_build import assert_equal_builds

HAS_BEAM = importlib.util.find_spec("apache_beam") is not None


@pytest.mark.skipif(HAS_BEAM, reason="Beam is installed")
def test_without_beam_the_message_says_what_to_install(tmp_path):
    with pytest.raises(UserError, match="requirements-beam.txt"):
        builds.run(tmp_path, runner="beam")


@pytest.mark.slow
@pytest.mark.skipif(not HAS_BEAM, reason="needs requirements-beam.txt")
@pytest.mark.filterwarnings("ignore")
def test_direct_runner_writes_the_same_bytes(tmp_path):
    local = builds.run(tmp_path, "local", num_passes=2)
    beam = builds.run(
        tmp_path,
        "beam",
        num_passes=2,
        runner="beam",
        beam_options="--runner=DirectRunner --direct_num_workers=1",
    )
    assert_equal_builds(local.data_dir, beam.data_dir)
    assert local.to_json() == beam.to_json()
