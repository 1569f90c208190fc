"""run_lm.py --mode=sweep: rising memory, sliding evaluation, losses by context."""

import dataclasses
import json
import math
import types

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints.restore import Source
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from tests.helpers.runs.lm import SIZES, data, evaluation, run
from training.jobs.causal_lm_options import CausalLMOptions
from training.recurrent import memory_sweep
from training.reporting.evaluation import EvalResult

__all__ = ["data"]  # a fixture


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A few steps."""
    folder = tmp_path_factory.mktemp("run") / "model"
    run(
        f"--data_dir={data / 'word'}",
        f"--model_dir={folder}",
        "--mode=train",
        *SIZES,
        "--seq_len=6",
        "--mem_len=8",
        "--train_steps=4",
    )
    return folder


@pytest.mark.slow
def test_a_sweep_and_windows_of_a_trained_model(data, trained, tmp_path):
    run(
        f"--data_dir={data / 'word'}",
        f"--model_dir={trained}",
        "--mode=sweep",
        f"--sweep_dir={tmp_path}",
        "--eval_batch_size=1",
        "--sweep_max=8",
        "--sweep_clamp_lens=-1,5",
    )
    rows = (tmp_path / "sweep.tsv").read_text().splitlines()
    lines = [row.split("\t") for row in rows]
    assert [line[:4] for line in lines[1:]] == [
        ["8", "14", "-1", "False"],  # as trained: T = 6, M = 8
        ["6", "7", "-1", "True"],
        ["6", "7", "5", "True"],
    ]
    about = json.loads((tmp_path / "sweep.json").read_text())
    assert len({p["nats"] for p in about["points"].values()}) == 3
    # An evaluation has the T of the training.
    default, _ = evaluation(data, trained, "--eval_batch_size=1")
    assert default["token_perplexity"] == pytest.approx(about["init"], rel=1e-4)
    # A window of 6 tokens is what 6 tokens of context give.
    sliding, (predicted, tokens) = evaluation(
        data, trained, "--protocol=sliding", "--eval_seq_len=6"
    )
    assert predicted == tokens - 1
    path = tmp_path / "found.npz"
    run(
        f"--checkpoint={trained}",
        f"--data_dir={data / 'word'}",
        f"--output={path}",
        "--contexts=5,6",
        f"--positions={tokens - 6}",
        module="studies.language.context_losses",
    )
    with np.load(path) as arrays:
        assert arrays["positions"].tolist() == list(range(6, tokens))
        assert arrays["tokens"].shape == (tokens - 6,)
        total = arrays["losses"][1].sum()
    # The first five tokens have less context.
    most = 6 * math.log(30)
    difference = sliding["nats_per_token"] * predicted - total
    assert 0 < difference < most


class Planted:
    """Requests whose evaluation is a formula; counts them."""

    def __init__(self, monkeypatch, model_dir, perplexity):
        (model_dir / "checkpoint").write_text("")
        self.done, self.said = [], []
        self.folder, self._perplexity = model_dir, perplexity
        self._config = TransformerXLConfig(
            **dict(vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4),
            d_inner=4,
            mem_len=8,
        )
        monkeypatch.setattr(memory_sweep.loop, "evaluate", self._evaluate)
        self.saved, self.read = ["ckpt-4"], set()
        self.beside = False  # a training saves
        monkeypatch.setattr(
            memory_sweep,
            "weights_to_read",
            lambda options: Source("native", self.saved[-1], ""),
        )
        self.weights, self.steps, self.marks = "abc", -1, {"data": "d"}
        monkeypatch.setattr(
            memory_sweep, "content_digest", lambda path: self.weights
        )

    def __call__(self, changes):
        config = self._config.replace(**changes)
        request = types.SimpleNamespace(
            objective=types.SimpleNamespace(config=config),
            options=types.SimpleNamespace(
                model_dir=str(self.folder),
                eval_batch_size=5,
                eval_steps=self.steps,
                strategy=types.SimpleNamespace(precision="float32"),
            ),
            eval_input_fn=None,
            must_match=self.marks,
            say=self.said.append,
        )
        return memory_sweep.Asked(request, 8 if changes else 12)

    def _evaluate(self, objective, input_fn, options, checkpoint):
        config = objective.config
        self.read.add(checkpoint.path)
        if self.beside:
            self.saved.append(f"ckpt-{len(self.saved) + 4}")
        self.done.append((config.mem_len, config.clamp_len))
        loss = math.log(self._perplexity(config.mem_len, config.clamp_len))
        return EvalResult(
            {"lm_loss": loss}, {}, {}, None, {"lm_loss": 90.0}, 0.2
        )


@pytest.mark.long
def test_a_sweep_ends_where_memory_gains_nothing(monkeypatch, tmp_path):
    def perplexity(memory, clamp):
        return 50 + max(0, 40 - memory) + (clamp == 6)

    planted = Planted(monkeypatch, tmp_path, perplexity)
    options = CausalLMOptions(
        "data", mode="sweep", sweep_clamp_lens=(6, -1), sweep_dir=str(tmp_path)
    )
    points = memory_sweep.sweep(planted, options, 8)
    memories = [p.mem_len for p in points[1::2]]
    assert memories == [8, 16, 24, 32, 40, 48]  # 48 gains nothing
    assert points[0].attention_len == 20 and not points[0].same_length
    assert points[1].seconds_per_token == pytest.approx(0.2 / 40)
    best = memory_sweep.best(points, 0.001)
    assert (best.attention_len, best.clamp_len) == (41, -1)
    assert planted.said[-1] == (
        "init 82.0000, best 50.0000, within 0.1% at attention length 41"
    )
    about = json.loads((tmp_path / "sweep.json").read_text())
    assert about["init"] == pytest.approx(82)
    assert about["best"] == pytest.approx(50)
    assert about["attention_len"] == 41
    # What was done before is not done again, whatever came after it.
    rows = about["points"]
    kept = dict(list(rows.items())[:4])
    (tmp_path / "sweep.json").write_text(json.dumps(about | {"points": kept}))
    done = len(planted.done)
    assert memory_sweep.sweep(planted, options, 8) == points
    assert len(planted.done) - done == done - 4
    for damaged in (3, {"trained": 3}, {"trained": {"x": 1}}):
        text = json.dumps(about | {"points": damaged})
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(UserError, match="json: wanted `points` with the"):
            memory_sweep.sweep(planted, options, 8)
    (tmp_path / "sweep.json").write_text(json.dumps(about | {"points": kept}))
    longest = dataclasses.replace(options, sweep_max=24)
    assert memory_sweep.sweep(planted, longest, 8)[-1].mem_len == 24
    assert any("24 (--sweep_max)" in line for line in planted.said)
    # Numbers of a trial, of other weights, data or marks are not taken.
    for name, value in (
        ("steps", 5),
        ("weights", "abd"),
        ("marks", {"data": "e"}),
    ):
        setattr(planted, name, value)
        done = len(planted.done)
        memory_sweep.sweep(planted, longest, 8)
        assert len(planted.done) - done == 7
    pairs = dataclasses.replace(longest, count_mark_pairs=False)
    memory_sweep.sweep(planted, pairs, 8)
    assert len(planted.done) - done == 14
    with pytest.raises(UserError, match="--sweep_max=7 is less than"):
        less = dataclasses.replace(longest, sweep_max=7)
        memory_sweep.sweep(planted, less, 8)


def test_a_sweep_is_of_one_checkpoint(monkeypatch, tmp_path):
    """A training beside it saves newer ones, which later points were of."""
    planted = Planted(monkeypatch, tmp_path, lambda memory, clamp: 99 - memory)
    planted.beside = True
    options = CausalLMOptions("data", mode="sweep", sweep_max=24)
    points = memory_sweep.sweep(planted, options, 8)
    assert len(points) == 4 and len(planted.saved) == 5
    assert planted.read == {"ckpt-4"}


def test_a_model_bound_to_its_segment_has_one_point(monkeypatch, tmp_path):
    planted = Planted(monkeypatch, tmp_path, lambda memory, clamp: 60.0)
    planted._config = planted._config.replace(encoding="absolute", mem_len=0)
    options = CausalLMOptions("data", mode="sweep")
    (only,) = memory_sweep.sweep(planted, options, 8)
    assert (only.mem_len, only.attention_len, only.predicted) == (0, 12, 90)
    folder = tmp_path / "sweep_valid"  # beside the model
    rows = (folder / "sweep.tsv").read_text().splitlines()
    assert len(rows) == 2 and rows[1].startswith("0\t12\t")
    assert any("nothing to raise" in line for line in planted.said)
    assert f"wrote {folder / 'sweep.tsv'}" in planted.said


def test_a_sweep_writes_to_a_bucket(monkeypatch, tmp_path):
    """A folder `ram:` was made where the command ran, too."""
    monkeypatch.chdir(tmp_path)
    planted = Planted(monkeypatch, tmp_path, lambda memory, clamp: 60.0)
    planted._config = planted._config.replace(encoding="absolute", mem_len=0)
    options = CausalLMOptions("data", mode="sweep", sweep_dir="ram://swept")
    memory_sweep.sweep(planted, options, 8)
    found = set(tf.io.gfile.listdir("ram://swept"))
    assert {"sweep.json", "sweep.tsv", "sweep.png"} <= found
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_a_split_without_tokens_has_no_perplexity(monkeypatch, tmp_path):
    planted = Planted(monkeypatch, tmp_path, lambda memory, clamp: 60.0)
    empty = EvalResult({"lm_loss": 0.0}, {}, {}, None, {"lm_loss": 0.0}, 0.2)
    monkeypatch.setattr(memory_sweep.loop, "evaluate", lambda *a, **how: empty)
    options = CausalLMOptions("data", mode="sweep", sweep_dir=str(tmp_path))
    with pytest.raises(UserError, match="holds no token to predict"):
        memory_sweep.sweep(planted, options, 8)


def test_the_best_point_is_the_shortest_that_is_not_beaten():
    def point(attention_len, perplexity):
        return memory_sweep.Point(
            *(1, attention_len, -1, True, 0.0, perplexity, 0.0, 9)
        )

    rising = [
        point(20, 52.0),
        point(33, 50.2),
        point(41, 50.0),
        point(57, 50.1),
    ]
    for gain, wanted in ((0.0, 41), (0.005, 33), (0.1, 20)):
        assert memory_sweep.best(rising, gain).attention_len == wanted
    # Of points that see as far the better one.
    clamped = [point(33, 50.2), point(33, 50.1), point(41, 50.0)]
    assert memory_sweep.best(clamped, 0.005) is clamped[1]
