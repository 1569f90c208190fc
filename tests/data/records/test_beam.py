"""Beam's DirectRunner writes the bytes of a local build."""

import os

import pytest

from common.errors import UserError
from data.corpus.documents import CorpusError
from data.records import beam as beam_runner
from tests.data.records.built_folders import HAS_BEAM, assert_equal_builds
from tests.helpers.runs import builds


@pytest.mark.skipif(HAS_BEAM, reason="Beam is installed")
def test_without_beam_the_message_says_what_to_install(tmp_path):
    with pytest.raises(UserError, match="requirements-beam.txt"):
        builds.run(tmp_path, runner="beam")


def test_what_a_killed_worker_left_is_removed(tmp_path, monkeypatch):
    def on_a_cluster(builder, options, plan, blocks, say):
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


def test_workers_that_write_elsewhere_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(beam_runner, "run", lambda *arguments: None)
    with pytest.raises(UserError, match="lacks 3 of 3 blocks .* gs://"):
        builds.run(tmp_path, runner="beam", block_megabytes=0.005)


def test_an_error_of_a_worker_keeps_its_kind_and_its_line():
    """Beam wraps it in the traceback of a process."""
    of_text = (
        "Traceback (most recent call last):\n  File ...\n"
        "data.corpus.documents.CorpusError: c.txt: line 7: not UTF-8 "
        "[while running 'build-ptransform-11']\n\n"
    )
    found = beam_runner._of_worker(RuntimeError(of_text))
    assert isinstance(found, CorpusError)
    assert str(found) == "c.txt: line 7: not UTF-8"
    other = beam_runner._of_worker(
        RuntimeError("x\ncommon.errors.UserError: disk full\n")
    )
    assert type(other) is UserError and str(other) == "disk full"
    assert beam_runner._of_worker(RuntimeError("Traceback: bug")) is None
    same = beam_runner._of_worker(CorpusError("c [while running 'build']"))
    assert type(same) is CorpusError and str(same) == "c"


@pytest.mark.slow
@pytest.mark.skipif(not HAS_BEAM, reason="needs requirements-beam.txt")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "given, message",
    [
        (
            "--runner=Nope",
            "--beam_options='--runner=Nope': Unexpected pipeline",
        ),
        ("--runner='Direct", "No closing quotation"),
    ],
)
def test_options_that_beam_refuses_are_one_line(tmp_path, given, message):
    with pytest.raises(UserError, match=message):
        builds.run(tmp_path, runner="beam", beam_options=given)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_BEAM, reason="needs requirements-beam.txt")
@pytest.mark.filterwarnings("ignore")
def test_an_option_that_beam_does_not_know_is_said(tmp_path, capsys):
    given = "--runner=DirectRunner --direct_num_wokers=1"
    builds.run(tmp_path, quiet=False, runner="beam", beam_options=given)
    assert "do not know --direct_num_wokers" in capsys.readouterr().out


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
