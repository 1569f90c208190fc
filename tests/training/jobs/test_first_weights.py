"""First weights that are not drawn at random: when, which, and what is said."""

import itertools
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import PretrainingModel, XLNetConfig
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from tests.helpers import commands
from tests.helpers.runs import builds
from training.jobs import first_weights
from training.jobs.pretrain_options import PretrainOptions
from training.run_options import RunOptions

V = 11
SIZES = {"vocab_size": V, "d_model": 8, "n_layer": 1, "n_head": 2}
XLNET = XLNetConfig(**SIZES, d_head=3, d_inner=5)
BERT = BertConfig(**SIZES, d_inner=5, max_position_embeddings=9)
NEAREST = {"init_attention": "nearest"}
UNIGRAM = {"init_output_bias": "unigram"}


def batches(params):
    """Endless: piece 3 three times of four, piece 7 once, a slot unused."""
    assert params == {"batch_size": 2, "start_step": 0}
    batch = {
        "target_ids": tf.constant([[3, 7, 3], [3, 5, 5]]),
        "target_weights": tf.constant([[1.0, 1, 1], [1, 0, 0]]),
    }
    return itertools.repeat(batch)


def start_of(what, config=XLNET, **run):
    options = RunOptions(model_dir="run", train_batch_size=2, **run)
    what = PretrainOptions(data_dir="records", **what)
    return first_weights.warm_start(what, options, config, batches)


def test_random_weights_stay_unless_a_flag_is_given():
    assert start_of({}) is None


def test_the_bias_gives_the_frequencies_of_the_targets(monkeypatch):
    monkeypatch.setattr(first_weights, "TARGETS", 4000)
    model = PretrainingModel(XLNET)
    lines = start_of(UNIGRAM)(model)
    assert lines == [
        "first weights  output bias: log frequencies of 4,000 targets"
    ]
    shares = np.exp(model.lm_head.bias.numpy())
    wanted = np.full(V, 1.0)
    wanted[[3, 7]] += 3000, 1000
    np.testing.assert_allclose(shares, wanted / 4011, rtol=1e-6)


def test_few_targets_end_the_counting_too(monkeypatch):
    monkeypatch.setattr(first_weights, "BATCHES", 7)
    params = {"batch_size": 2, "start_step": 0}
    counts = first_weights.target_counts(batches(params), V)
    assert counts.tolist() == [0, 0, 0, 21, 0, 0, 0, 7, 0, 0, 0]


@pytest.mark.parametrize("config", [XLNET, BERT], ids=lambda c: c.model_type)
def test_attention_is_that_of_the_encoder(config):
    model = PretrainingModel(config)
    bias = model.lm_head.bias.numpy()
    before = [v.numpy() for v in model.encoder.variables]
    lines = start_of(NEAREST, config)(model)
    assert lines == ["first weights  half of the heads attend to a neighbour"]
    changed = [
        not np.array_equal(old, new)
        for old, new in zip(before, model.encoder.variables, strict=True)
    ]
    assert any(changed) and not all(changed)
    np.testing.assert_array_equal(model.lm_head.bias, bias)


@pytest.mark.parametrize("flag", [NEAREST, UNIGRAM], ids=str)
def test_the_weights_of_a_checkpoint_stay(flag):
    assert start_of(flag)
    assert start_of(flag, init_checkpoint="other") is None


def test_encoders_without_it_are_named():
    modern = ModernBertConfig(**SIZES, d_inner=6)
    with pytest.raises(
        UserError, match="is for xlnet or bert or albert, found modernbert"
    ):
        start_of(NEAREST, modern)
    assert start_of(UNIGRAM, modern)


@pytest.mark.long
def test_a_run_begins_with_them_once(tmp_path):
    """The first loss says so; the command given again goes on."""
    builds.run(tmp_path, "data", reuse_len=0, bi_data=False)

    def run(steps):
        done = commands.run(
            *("run_pretrain.py", f"--data_dir={tmp_path / 'data'}"),
            *(f"--model_dir={tmp_path / 'run'}", f"--train_steps={steps}"),
            *("--d_model=8", "--n_layer=1", "--n_head=2", "--d_head=4"),
            *("--d_inner=12", "--train_batch_size=4", "--mode=train"),
            *("--init_attention=nearest", "--init_output_bias=unigram"),
        )
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "run/losses.tsv").read_text().splitlines()
        return done.stdout, lines[1:]

    said, lines = run(1)
    assert said.count("first weights ") == 2
    again, more = run(2)
    assert more[0] == lines[0] and len(more) == 2
    assert "first weights " not in again and "step 1; to step 2" in again
    vocab_size = json.loads((tmp_path / "data/manifest.json").read_text())[
        "vocab_size"
    ]
    assert float(lines[0].split("\t")[1]) < math.log(vocab_size) - 0.1
