"""A run of a task: where it goes on, what it keeps, says and writes."""

import dataclasses
import json
import os
import types

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.errors import Stopped, UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning import thresholds
from data.finetuning.classifier.sets import THRESHOLD
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.features.table import balanced_weights
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from data.finetuning.task import EVAL
from modeling.checkpoints import restore as checkpoints
from tests.helpers.runs.classifier import (
    CONFIG,
    make_job,
    make_options,
    read_rows,
    write_task,
)
from tests.helpers.runs.classifier_outputs import keeping, make_owner
from tests.helpers.runs.written_files import check_same, files_of
from training import loop
from training.finetuning import driver
from training.finetuning.driver import Driver
from training.finetuning.sources import find_config
from training.objectives import build as heads
from training.reporting.eval_runner import EvaluationLog
from training.run import TrainResult
from training.run_options import OptimizerOptions, StrategyOptions

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
@pytest.mark.parametrize("buckets,stops", [("", (8, 10)), ("6,9", (10,))])
def test_a_broken_run_ends_in_the_same_bytes(
    tmp_path, spiece_model, buckets, stops
):
    write_task(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | RATES))
    train(tmp_path, "whole", spiece_model, buckets)
    # After a save (8), and between two (10).
    for stop_at in stops:
        name = f"broken{stop_at}"
        train(tmp_path, name, spiece_model, buckets, stop_at)
        train(tmp_path, name, spiece_model, buckets)
        check_same(tmp_path / name, tmp_path / "whole")
    if buckets:
        return
    # Another seed gives other losses: the bytes do depend on the run.
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


def test_predictions_of_no_numbers_are_not_written(
    tmp_path, spiece_model, monkeypatch
):
    write_task(tmp_path)
    options = make_options(tmp_path, do_predict=True)
    job = make_job(tmp_path, spiece_model, options)
    monkeypatch.setattr(
        driver.loop, "predict", lambda *_: {"logits": np.full([7, 2], np.nan)}
    )
    run = object.__new__(Driver)
    run.task, run.options, run.objective = job, options, None
    with pytest.raises(UserError, match="output on test is not finite"):
        run.predict(None)
    assert not (tmp_path / "model").exists()


def test_training_again_keeps_the_threshold(
    tmp_path, spiece_model, monkeypatch
):
    owner, options = make_owner(
        tmp_path, spiece_model, actions=("do_train", "do_export")
    )
    job = owner.load()
    home = tmp_path / "model"
    home.mkdir()
    keeping(job, 0.3).write(str(home))
    tf.train.Checkpoint(x=tf.Variable(1)).write(str(home / "model.ckpt-4"))

    def train(*arguments, **more):
        raise KeyboardInterrupt  # the folder is as a finished run leaves it

    monkeypatch.setattr(driver, "run_training", train)
    with pytest.raises(KeyboardInterrupt):
        Driver(job, options, say=lambda line: None).run()
    assert TaskSpec.read(str(home)).data_options[THRESHOLD] == 0.3


def test_a_training_that_is_stopped_is_not_evaluated(
    tmp_path, spiece_model, monkeypatch
):
    owner, options = make_owner(
        tmp_path, spiece_model, actions=("do_train", "do_eval")
    )
    stopped = TrainResult(4, False, "SIGHUP", {}, [], "c-4", None, 1, True)
    monkeypatch.setattr(driver, "run_training", lambda _: stopped)
    with pytest.raises(Stopped) as stop:
        Driver(owner.load(), options, say=lambda line: None).run()
    assert stop.value.status == 129


@pytest.mark.slow
@pytest.mark.shared
def test_another_dev_file_is_a_note(tmp_path, spiece_model):
    """`best/` was kept by numbers of two files, without a word."""
    write_task(tmp_path)
    said = []

    def run(steps, **evaluations):
        options = make_options(
            tmp_path,
            steps=steps,
            do_train=True,
            run={"iterations": 1, "progress": "lines", **evaluations},
        )
        job = make_job(tmp_path, spiece_model, options)
        said.clear()
        Driver(job, options, say=said.append).run()
        return [x for x in said if x.startswith("note: `dev_data` wanted")]

    assert not run(1, eval_every=1)
    dev = tmp_path / "dev.tsv"
    text, label = dev.read_text().splitlines()[-1].split("\t")
    other = {"yes": "no", "no": "yes"}[label]
    dev.write_text(dev.read_text() + f"{text}\t{other}\n")
    assert len(run(2, eval_every=1)) == 1
    assert not run(3, eval_every=1)
    # Who evaluates at the end alone may do so on any file.
    dev.write_text(dev.read_text() + f"{text}\t{label}\n")
    assert not run(4)


def test_evaluations_after_the_best_one(tmp_path):
    log = EvaluationLog(str(tmp_path), 0)
    since = []
    for step, value in enumerate((0.3, 0.5, 0.5, float("nan"), 0.4), 1):
        log.add(step, {"f1": value})
        since.append(log.since_best("f1", True))
    assert since == [0, 0, 1, 2, 3]
    assert log.since_best("f1", False) == 4  # the first is the least
    # A run that goes on from step 3 knows what it knew there.
    assert EvaluationLog(str(tmp_path), 3).since_best("f1", True) == 1


@pytest.mark.slow
@pytest.mark.shared
def test_epochs_patience_and_what_an_evaluation_writes(tmp_path, spiece_model):
    """A rate of nearly nothing: no evaluation is better than the first."""
    write_task(tmp_path)
    options = make_options(
        tmp_path,
        do_train=True,
        do_eval=True,
        train_epochs=4.0,
        best_metric="matthews",
        class_weights=("balanced",),
        label_smoothing=0.1,
        run={
            "eval_every": 2,
            "patience": 3,
            "iterations": 1,
            "optimizer": OptimizerOptions(learning_rate=1e-12),
        },
    )
    job = make_job(tmp_path, spiece_model, options)
    said = []
    dry = dataclasses.replace(options, dry_run=True)
    before = files_below(tmp_path)
    Driver(job, dry, say=said.append).run()
    assert files_below(tmp_path) == before
    assert said[-1].startswith("dry run: all is well")
    first = next(x for x in said if x.startswith("first batch")).split()[-1]
    assert sum("1e-12 is low for a model of width" in x for x in said) == 1
    said.clear()
    results = Driver(job, options, say=said.append).run()
    assert "--train_steps=20" in said[0]  # 4 x 30 / 6
    ended = [x for x in said if x.startswith("stopped early")]
    assert ended == [
        "stopped early at step 8: 3 evaluations without a better matthews"
    ]
    assert set(results["dev"]) == {"accuracy", "macro_f1", "matthews", "loss"}
    model = tmp_path / "model"
    losses = read_rows(model / "losses.tsv")
    assert len(losses) == 9
    assert float(losses[1][1]) == pytest.approx(float(first), rel=1e-4)
    # The same command again trains no further.
    steps = (model / "losses.tsv").read_bytes()
    Driver(job, options, say=said.append).run()
    assert (model / "losses.tsv").read_bytes() == steps
    # Killed between a save and its evaluation: that one is made up for.
    rows = (model / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(r)["step"] for r in rows] == [2, 4, 6, 8]

    folder = model / "predictions"
    examples = read_rows(folder / "dev_examples.tsv")
    assert examples[0][:3] == ["guid", "label", "prediction"]
    right = np.mean([row[1] == row[2] for row in examples[1:]])
    assert right == pytest.approx(results["dev"]["accuracy"])
    assert "red" in examples[1][-1] or examples[1][1] == "no"
    confusion = read_rows(folder / "dev_confusion.tsv")
    cells = np.array([row[1:] for row in confusion[1:]], int)
    assert cells.sum() == 11 and np.trace(cells) / 11 == pytest.approx(right)
    assert (folder / "dev_confusion.png").stat().st_size > 1000
    other = dataclasses.replace(options, best_metric="f2")
    with pytest.raises(UserError, match="--best_metric must be one of"):
        Driver(
            make_job(tmp_path, spiece_model, other), other, say=said.append
        ).run()
    table = job_table(tmp_path, spiece_model, options)
    labels = table.columns["label_ids"]
    weights = balanced_weights(table, 2)
    assert weights[1] / weights[0] == pytest.approx(
        (labels == 0).sum() / (labels == 1).sum()
    )


def job_table(folder, spiece, options):
    data = ClassifierDataOptions(task_name="tsv", data_dir=str(folder))
    task = ClassifierTask(data, FeatureOptions(spiece, 16), options)
    return task.read("train", "train").table


def files_below(folder):
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
    )


def test_epochs_are_steps_that_see_every_example(tmp_path):
    said = []
    options = make_options(tmp_path, do_train=True, train_epochs=1.5)
    found = driver.settle_steps(10, options, said.append)
    assert found.run.train_steps == 3  # 15 examples in batches of 6
    assert said == [
        "epochs       1.5 of 10 examples in batches of 6 = --train_steps=3"
    ]
    assert driver.settle_steps(0, options, str).run.train_steps == 1
    # Without a training, or epochs, the options stay.
    for same in (
        make_options(tmp_path, do_eval=True, train_epochs=1.5),
        make_options(tmp_path, do_train=True),
    ):
        assert driver.settle_steps(10, same, said.append) is same
    assert len(said) == 1
    late = OptimizerOptions(warmup_steps=3)
    options = make_options(
        tmp_path, 9, do_train=True, train_epochs=1.5, run={"optimizer": late}
    )
    with pytest.raises(
        UserError, match=r"--warmup_steps \(3\) must be smaller"
    ):
        driver.settle_steps(10, options, str)


def spec_of(**changes):
    return dataclasses.replace(
        TaskSpec("tsv", "span", ("a", "b"), 16, TextSettings(), "0"), **changes
    )


def test_a_folder_keeps_its_task(tmp_path):
    home = str(tmp_path)
    driver.check_same_task(spec_of(), home)  # nothing is there
    spec_of().write(home)
    driver.check_same_task(spec_of(), home)
    other = spec_of(task_name="x", spiece_sha256="1", max_seq_length=8)
    with pytest.raises(UserError, match="task.json is of another task") as e:
        driver.check_same_task(other, home)
    for part in (
        "`task_name` wanted x, found tsv",
        "`spiece_sha256` wanted 1, found 0",
        "`max_seq_length` wanted 8, found 16",
    ):
        assert part in str(e.value)
    assert "`head`" not in str(e.value) and "\n" not in str(e.value)


def test_the_task_of_the_weights_that_are_read_is_asked(tmp_path):
    """--predict_ckpt, then the run's folder, then where it began."""
    places = ("ckpt", "model", "start")
    for place, length in zip(places, (4, 5, 6), strict=True):
        (tmp_path / place).mkdir()
        spec_of(max_seq_length=length).write(str(tmp_path / place))
    options = make_options(
        tmp_path,
        do_eval=True,
        predict_ckpt=str(tmp_path / "ckpt" / "model.ckpt-3"),
        run={"init_checkpoint": str(tmp_path / "start")},
    )
    for place, length in zip(places, (4, 5, 6), strict=True):
        (line,) = driver.check_trained(spec_of(), options)
        path = tmp_path / place / "task.json"
        assert line == f"note: --max_seq_length=16, {path} says {length}"
        path.unlink()
    assert driver.check_trained(spec_of(), options) == []


def test_a_threshold_is_that_of_the_weights_unless_a_flag_gives_one(tmp_path):
    home, best = str(tmp_path), str(tmp_path / "best" / "model.ckpt-2")
    kept = thresholds.replace(spec_of(), {THRESHOLD: 0.3}, "best/model.ckpt-2")
    kept.write(home)

    def taken(path, given):
        task = types.SimpleNamespace(
            threshold=0.9, export_options=lambda: given
        )
        said = []
        found = driver.with_threshold_of(
            task, spec_of(), home, path, said.append
        )
        return found.data_options.get(THRESHOLD), task.threshold, len(said)

    assert taken(best, {}) == (0.3, 0.3, 0)
    assert taken(f"{home}/model.ckpt-4", {}) == (None, None, 1)
    assert taken(best, {THRESHOLD: 0.9}) == (0.3, 0.9, 0)
    assert taken(f"{home}/model.ckpt-4", {THRESHOLD: 0.9}) == (None, 0.9, 0)


@pytest.mark.parametrize(
    "metric, values, best",
    [
        ("f1", (0.5, 0.75, 0.75), 2),  # the first of equals
        ("f1", (0.5, float("nan"), 0.25), 1),
        ("f1", (float("nan"), float("nan"), 0.0), 3),
        ("mse", (0.5, 0.75, 0.25), 3),
        ("loss", (0.5, 0.5, float("nan")), 1),
    ],
)
def test_the_best_of_all_checkpoints(tmp_path, metric, values, best):
    options = make_options(tmp_path, do_eval=True, eval_all_ckpt=True)
    home = tmp_path / "model"
    for step in (1, 2, 3):
        tf.train.Checkpoint(x=tf.Variable(step)).write(
            str(home / f"model.ckpt-{step}")
        )
    run, said = Driver.__new__(Driver), []
    run.home, run.options, run.say = str(home), options, said.append
    run.task = types.SimpleNamespace(evals={"dev": None}, best_metric=metric)

    def evaluated(name, path):
        step = int(path.rpartition("-")[2])
        return types.SimpleNamespace(metrics={metric: values[step - 1]})

    run._evaluated = evaluated
    found = run.best_of_all()
    assert found.path == str(home / f"model.ckpt-{best}")
    assert found.why == f"the best of 3 by {metric}, {values[best - 1]:.5g}"
    assert said[0] == f"model.ckpt-1 dev: {metric} {values[0]:.5g}"
    stored = json.loads((home / "eval_all_ckpt.json").read_text())
    assert stored["best"] == f"model.ckpt-{best}" and len(said) == 3
    run.home = str(tmp_path)
    with pytest.raises(UserError, match="holds no checkpoint"):
        run.best_of_all()
