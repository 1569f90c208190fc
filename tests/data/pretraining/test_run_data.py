"""The records of a run: checked against flags, vocabulary and each other."""

import shutil

import pytest

from common.errors import UserError
from data.pretraining import run_data
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run_data")


@pytest.fixture(scope="module")
def whole(folder):
    return builds.run(folder, "whole", dev_fraction=0.2)


@pytest.fixture(scope="module")
def bare(folder):
    return builds.run(folder, "bare")


def test_the_dev_split_is_held_out_or_other_data_are(folder, whole, bare):
    data = run_data.open_data(whole.data_dir, {"seq_len": 48})
    assert data.held_out == (data.manifest, "dev")
    alone = run_data.open_data(bare.data_dir, {})
    assert alone.held_out is None
    assert alone.held_out_batches(0) is None
    with pytest.raises(UserError, match="has no dev split; build it with"):
        run_data.open_data(bare.data_dir, {}, needs_held_out=True)
    other = run_data.open_data(whole.data_dir, {}, eval_data_dir=bare.data_dir)
    assert other.held_out[1] == "train"
    assert other.held_out[0].data_dir == bare.data_dir
    short = builds.run(folder, "short", seq_len=32, reuse_len=12)
    with pytest.raises(UserError, match="seq_len: wanted 48, found 32"):
        run_data.open_data(whole.data_dir, {}, eval_data_dir=short.data_dir)


def test_flags_agree_with_the_data(whole):
    with pytest.raises(UserError, match="reuse_len: wanted 24, found 20"):
        run_data.open_data(whole.data_dir, {"reuse_len": 24})


def test_the_vocabulary_is_the_copy_or_the_same_file(folder, bare, tmp_path):
    data = run_data.open_data(bare.data_dir, {})
    assert data.vocabulary.sha256 == bare.spiece_sha256
    copy = tmp_path / "copy"
    shutil.copytree(bare.data_dir, copy)
    (copy / "spiece.model").unlink()
    alone = run_data.open_data(str(copy), {})
    assert alone.vocabulary is None
    assert "give --spiece_model_file" in alone.lines(2)[-1]
    assert alone.of_data().sha256 == bare.spiece_sha256
    given = run_data.open_data(str(copy), {}, str(folder / "spiece.model"))
    assert given.vocabulary.sha256 == bare.spiece_sha256
    other = builds.train_spiece(tmp_path, str(folder / "corpus.txt"), 100)
    with pytest.raises(UserError, match="is another file: .*spiece_sha256"):
        run_data.open_data(str(copy), {}, other)


def test_the_summary_and_what_a_resumed_run_must_match(whole, bare):
    data = run_data.open_data(whole.data_dir, {})
    text = "\n".join(data.lines(6))
    lanes = whole.lanes("train")
    assert f"{lanes} lanes of 5 segments per direction" in text
    positions, targets = 6 * 48, 6 * whole.num_predict
    assert f"{positions} positions and up to {targets} targets" in text
    assert f"held out     dev split of {whole.data_dir}" in text
    same = run_data.open_data(whole.data_dir, {}).must_match()
    assert same == data.must_match()
    other = run_data.open_data(bare.data_dir, {}).must_match()
    assert other["data"] != same["data"]
    assert other["vocabulary"] == same["vocabulary"]


def test_what_evaluations_of_a_resumed_run_are_compared_by(whole, bare):
    data = run_data.open_data(whole.data_dir, {})
    same = data.should_match(4)
    assert run_data.open_data(whole.data_dir, {}).should_match(4) == same
    assert data.should_match(5) == same | {"eval_steps": 5}
    other = run_data.open_data(whole.data_dir, {}, eval_data_dir=bare.data_dir)
    assert other.should_match(4)["dev_data"] != same["dev_data"]
    assert run_data.open_data(bare.data_dir, {}).should_match(4) == {}
