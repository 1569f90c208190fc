"""The streams of a run: lengths, its model's vocabulary, its summary."""

import math
import os
import shutil

import pytest

from common.errors import UserError
from common.vocabularies import vocabulary
from common.vocabularies.text_settings import TextSettings
from data.language_modeling import run_data
from data.text import lm_vocabulary
from tests.data.language_modeling.stream_builds import run


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return run_data.open_data(run(tmp_path_factory.mktemp("run")).data_dir)


def test_a_segment_fits_into_a_split(data):
    tokens = data.manifest.split_counts("valid").tokens
    data.check_length("valid", tokens - 1)
    with pytest.raises(UserError, match=f"--seq_len={tokens} is too long: the"):
        data.check_length("valid", tokens)
    with pytest.raises(UserError, match="no dev split"):
        data.evaluation_batches("dev", 4, "lanes", True)
    # The advice was a shorter --seq_len, which an evaluation does not follow.
    with pytest.raises(
        UserError, match=f"--eval_seq_len={tokens} .* the valid"
    ):
        data.evaluation_batches("valid", tokens, "lanes", True)


def test_pairs_of_marks_are_of_streams_that_have_marks(data, tmp_path):
    """Nothing was left out, without a word."""
    with pytest.raises(
        UserError, match="--nocount_mark_pairs .* has eos: leave"
    ):
        data.evaluation_batches("valid", 2, "lanes", False)
    marked = run_data.open_data(run(tmp_path, line_end="marks").data_dir)
    marked.evaluation_batches("valid", 2, "lanes", False)


def test_batches_begin_at_the_step_that_is_asked_for(data):
    make = data.train_batches(3, 5, "ordered")
    params = {"batch_size": 2, "start_step": 0}
    _, second = make(params).take(2).as_numpy_iterator()
    (later,) = make(params | {"start_step": 1}).take(1).as_numpy_iterator()
    assert (second["input_ids"] == later["input_ids"]).all()
    rows = make(params | {"rows": (1,)}).take(1).as_numpy_iterator()
    assert next(rows)["input_ids"].shape == (1, 5)


def test_a_models_vocabulary_is_that_of_the_data(data, tmp_path):
    marks = data.marks()
    assert marks["vocabulary_file"] == "vocabulary.json"
    assert marks["line_end"] == "eos"
    data.check_model(marks, "the model")
    data.check_model({}, "a model that says nothing")
    with pytest.raises(UserError, match="another vocabulary than the one of"):
        data.check_model({"vocabulary_sha256": "0" * 64}, "the model")
    data.copy_vocabulary(str(tmp_path))
    path = tmp_path / "vocabulary.json"
    before = os.stat(path).st_mtime_ns
    data.copy_vocabulary(str(tmp_path))
    assert os.stat(path).st_mtime_ns == before
    # Of a run on other data that died before its first checkpoint.
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"the"', b'"THE"'))
    data.copy_vocabulary(str(tmp_path))
    assert path.read_bytes() == content


@pytest.mark.shared
def test_the_text_settings_of_a_models_pieces_come_along(
    spiece_model, tmp_path
):
    """They may stand beside the file: without them it is another vocabulary."""
    given, model = tmp_path / "given", tmp_path / "model"
    for folder in (given, model):
        folder.mkdir()
    settings = TextSettings(uncased=True)
    vocabulary.copy(vocabulary.read(spiece_model), settings, str(given))
    path = str(given / "spiece.model")
    manifest = run(tmp_path, unit="piece", vocab_file=path)
    data = run_data.open_data(manifest.data_dir)
    data.copy_vocabulary(str(model))
    copy = lm_vocabulary.load(str(model / data.marks()["vocabulary_file"]))
    data.check_model({"vocabulary_sha256": copy.sha256}, "the model")
    assert copy.lower_case


def test_what_a_resumed_run_must_match(data, tmp_path):
    assert data.must_match()["vocabulary"] == data.vocabulary.sha256
    copy = tmp_path / "copy"
    shutil.copytree(data.manifest.data_dir, copy)
    assert run_data.open_data(str(copy)).must_match() == data.must_match()
    other = run(tmp_path, "other", min_count=3)
    other = run_data.open_data(other.data_dir)
    assert other.must_match()["data"] != data.must_match()["data"]


def test_the_summary_counts_tokens_and_steps(data):
    size = data.vocabulary.size
    assert data.baselines() == {"ln(vocabulary)": math.log(size)}
    tokens = data.manifest.split_counts("train").tokens
    first, second = data.lines(4, 5)
    assert f"{tokens} word tokens to train on, vocabulary {size}" in first
    assert f"T=5; 20 tokens per step, {tokens / 20:,.1f} steps" in second
