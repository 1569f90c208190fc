"""A fine-tuning run that breaks off goes on to the same bytes."""

import json

import pytest

from data.finetuning.options import FeatureOptions
from data.finetuning.task import EVAL
from tests.helpers.runs.classifier import (
    CONFIG,
    make_job,
    make_options,
    write_task,
)
from tests.training.finetuning.written_files import files_of
from training.finetuning.driver import Driver

RATES = {"dropout": 0.1, "dropatt": 0.2}


def train(folder, name, spiece, buckets, stop_at=None, **run):
    """One run into `folder/name`; `stop_at` breaks off after so many steps."""
    options = make_options(
        folder,
        steps=12,
        do_train=True,
        run={
            "model_dir": str(folder / name),
            "iterations": 2,
            "save_steps": 4,
            "progress": "lines",
            **run,
        },
    )
    features = FeatureOptions(spiece, 16, length_buckets=buckets)
    job = make_job(folder, spiece, options, features)

    class Crash(Exception):
        pass

    def say(line):
        if stop_at and line.startswith(f"step {stop_at}/"):
            raise Crash

    if stop_at:
        with pytest.raises(Crash):
            Driver(job, options, say=say).run()
    else:
        Driver(job, options, say=say).run()


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("buckets", ["", "6,9"])
def test_a_broken_run_ends_in_the_same_bytes(tmp_path, spiece_model, buckets):
    write_task(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | RATES))
    train(tmp_path, "whole", spiece_model, buckets)
    # After a save, and between two.
    for stop_at in (8, 10):
        name = f"broken{stop_at}"
        train(tmp_path, name, spiece_model, buckets, stop_at)
        train(tmp_path, name, spiece_model, buckets)
        assert files_of(tmp_path / name) == files_of(tmp_path / "whole")
    # Another seed gives other losses: the bytes do depend on the run.
    from training.run_options import StrategyOptions

    train(
        tmp_path,
        "seed",
        spiece_model,
        buckets,
        strategy=StrategyOptions(seed=5),
    )
    assert files_of(tmp_path / "seed")[0] != files_of(tmp_path / "whole")[0]


@pytest.mark.slow
@pytest.mark.shared
def test_evaluation_and_readers_take_the_averages(tmp_path, spiece_model):
    import tensorflow as tf

    from modeling.checkpoints import restore as checkpoints
    from training import loop
    from training.finetuning.sources import find_config
    from training.objectives import build as heads
    from training.run_options import OptimizerOptions

    write_task(tmp_path)
    optimizer = OptimizerOptions(learning_rate=3e-2, ema_decay=0.9)
    train(tmp_path, "model", spiece_model, "", optimizer=optimizer)
    options = make_options(tmp_path, steps=12, do_eval=True)
    job = make_job(tmp_path, spiece_model, options)
    config = find_config(options, job.tokenizer.vocab_size)

    spec = job.spec()

    def build():
        return heads.build_objective(spec.head, config, **spec.head_options)

    def evaluate(model=None):
        split = job.evals["dev"]
        return loop.evaluate(
            build(), job.batches(split, EVAL), options.run, model=model
        ).metrics["loss"]

    path = tf.train.latest_checkpoint(tmp_path / "model")
    averaged, last = build().build_model(), build().build_model()
    tf.train.Checkpoint(model=last).read(path).expect_partial()
    report = checkpoints.restore(averaged, path)
    assert not report.fresh
    assert evaluate() == evaluate(averaged)
    assert abs(evaluate(last) - evaluate(averaged)) > 1e-3
