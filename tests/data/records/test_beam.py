"""Beam's DirectRunner writes the bytes of a local build."""

import importlib.util
import os

import pytest

from common.errors import UserError
from data.records import beam as beam_runner
from tests.data import builds
from tests.data.records.test_build import assert_equal_builds

HAS_BEAM = importlib.util.find_spec("apache_beam") is not None


@pytest.mark.skipif(HAS_BEAM, reason="Beam is installed")
def test_without_beam_the_message_says_what_to_install(tmp_path):
    with pytest.raises(UserError, match="requirements-beam.txt"):
        builds.run(tmp_path, runner="beam")


def test_what_a_killed_worker_left_is_removed(tmp_path, monkeypatch):
    def on_a_cluster(builder, options, plan, blocks):
        block_builder = builder(options, plan)
        for block in blocks:
            block_builder.build(block)
        with open(f"{options.output_dir}/.a.tfrecord.tmp-99", "w") as f:
            f.write("half")

    local = builds.run(tmp_path, "local")
    monkeypatch.setattr(beam_runner, "run", on_a_cluster)
    beam = builds.run(tmp_path, "beam", runner="beam")
    assert_equal_builds(local.data_dir, beam.data_dir)
    assert set(os.listdir(local.data_dir)) == set(os.listdir(beam.data_dir))


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
