"""Epochs, early stopping, seeds, dry runs and ensembles of whole runs."""

import dataclasses
import json
import os
import types

import numpy as np
import pytest
from tensorflow.python.framework import ops

from common.errors import UserError
from data.finetuning.features.table import balanced_weights
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from data.finetuning.task import Split, Task
from tests.helpers.runs.classifier import (
    make_job,
    make_options,
    read_rows,
    write_task,
)
from training.finetuning import command as commands
from training.finetuning.driver import Driver
from training.reporting.eval_runner import EvaluationLog


def files_below(folder):
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
    )


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


def test_summaries_and_wrong_values(tmp_path):
    found = commands.summarize([{"dev": {"f1": v}} for v in (1.0, 4.0, 2.5)])[
        "dev"
    ]
    assert found["f1"] == {
        "n": 3,
        "median": 2.5,
        "mean": 2.5,
        "sd": pytest.approx(1.5),
        "least": 1.0,
        "most": 4.0,
    }
    wrong = {
        "patience": {"run": {"patience": 1}, "do_train": True},
        "class_weights": {"class_weights": (1.0, -1.0), "do_train": True},
        "leave out --do_train": {"ensemble": ("a",), "do_train": True},
        "names a folder twice": {"ensemble": ("a", "a"), "do_eval": True},
        "one per folder": {
            "ensemble": ("a", "b"),
            "ensemble_weights": (1.0,),
            "do_eval": True,
        },
        "--greedy": {"greedy": True, "do_eval": True},
        "--eval_every=N says how often": {
            "run": {"eval_every": 2, "eval_steps": 1},
            "do_train": True,
        },
        "label_smoothing": {"label_smoothing": 1.0, "do_train": True},
    }
    for text, changes in wrong.items():
        with pytest.raises(UserError, match=text):
            make_options(tmp_path, **changes)


@pytest.mark.slow
@pytest.mark.shared
def test_epochs_patience_and_what_an_evaluation_writes(tmp_path, spiece_model):
    """A rate of nearly nothing: no evaluation is better than the first."""
    write_task(tmp_path)
    from training.run_options import OptimizerOptions

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
    from data.finetuning.classifier.task import ClassifierTask

    data = ClassifierDataOptions(task_name="tsv", data_dir=str(folder))
    task = ClassifierTask(data, FeatureOptions(spiece, 16), options)
    return task.read("train", "train").table


@pytest.mark.slow
@pytest.mark.shared
def test_seeds_and_their_ensemble(tmp_path, spiece_model):
    """Two seeds; an ensemble of one is that one; two vote; the better stays."""
    from data.finetuning.classifier.task import ClassifierTask

    write_task(tmp_path)
    home = tmp_path / "model"
    said = []

    def command(**changes):
        """What the command does with flags, some of them changed."""

        def read(model_dir=str(home), seed=4, predict_ckpt=""):
            run = options.run
            strategy = dataclasses.replace(run.strategy, seed=seed)
            run = run.replace(model_dir=model_dir, strategy=strategy)
            return {
                "options": dataclasses.replace(
                    options, run=run, predict_ckpt=predict_ckpt
                ),
                "data": ClassifierDataOptions("tsv", str(tmp_path)),
                "features": FeatureOptions(spiece_model, 16),
            }

        options = make_options(tmp_path, steps=8, **changes)
        return commands.run(ClassifierTask, read, read(), say=said.append)

    again = {"do_train": True, "do_eval": True, "num_seeds": 2}
    graphs = set(ops.gradient_registry.list())
    medians = command(**again)
    assert set(ops.gradient_registry.list()) == graphs  # nothing is kept
    stored = json.loads((home / "seeds.json").read_text())
    assert set(stored["seeds"]) == {"4", "5"}
    accuracies = [s["dev"]["loss"] for s in stored["seeds"].values()]
    assert len(set(accuracies)) == 2
    assert medians["dev"]["loss"] == pytest.approx(np.mean(accuracies))
    assert any("median" in line and "2 seeds" in line for line in said)
    # What is trained is only evaluated: the same numbers, the same weights.
    assert command(**again) == medians

    folders = [str(home / f"seed_{s}") for s in (4, 5)]
    both = {"do_eval": True, "do_predict": True}
    name = "predictions/dev_examples.tsv"
    for seed, folder in zip((4, 5), folders, strict=True):
        one = command(ensemble=(folder,), **both)
        alone = stored["seeds"][str(seed)]["dev"]
        assert one["dev"] == {k: v for k, v in alone.items() if k != "loss"}
        rows = (home / name).read_bytes()
        assert rows == (home / f"seed_{seed}" / name).read_bytes()
    together = command(ensemble=tuple(folders), **both)
    shares = [
        np.array(
            [r[3:5] for r in read_rows(home / f"seed_{s}" / name)[1:]], float
        )
        for s in (4, 5)
    ]
    rows = read_rows(home / name)[1:]
    mean = np.array([r[3:5] for r in rows], float)
    np.testing.assert_allclose(mean, np.mean(shares, 0), atol=2e-6)
    assert together["dev"]["accuracy"] == np.mean([r[1] == r[2] for r in rows])
    assert len(read_rows(home / "predictions" / "test_predictions.tsv")) == 8
    said.clear()
    command(ensemble=tuple(folders), do_eval=True, greedy=True)
    record = json.loads((home / "ensemble.json").read_text())
    assert record["scores"] == sorted(record["scores"])
    assert set(record["members"]) <= set(folders)
    with pytest.raises(UserError, match="holds no task.json"):
        command(ensemble=(str(tmp_path),), do_eval=True)


def test_a_dry_run_makes_the_reports(tmp_path):
    """What would fail after the training fails before it."""
    from data.finetuning.classifier import reports
    from training.finetuning import dry_run

    made, names = [], ("$_$", "\\frac", "--1")
    matrix = np.eye(3, dtype=int)

    class Toy(Task):
        evals = {"dev": Split("dev", (), types.SimpleNamespace(num_examples=7))}

        def __init__(self):
            pass

        def metrics(self, split, outputs, labels):
            return {"n": len(labels["label_ids"])}

        def write_report(self, split, outputs, folder):
            assert outputs["logits"].shape == (7, 3)
            made.append(reports.picture(matrix, names, names))
            return [os.path.join(folder, "dev_confusion.png")]

    result = types.SimpleNamespace(
        predictions={"logits": np.zeros([2, 3], np.float32)},
        labels={"label_ids": np.array([0, 1])},
    )
    run = types.SimpleNamespace(model_dir=str(tmp_path / "m"))
    options = types.SimpleNamespace(run=run, predict_dir="")
    toy = Toy()
    how = toy, "dev", result, options
    dry_run.require_report(*how)
    assert len(made) == 1 and not list(tmp_path.iterdir())
    (tmp_path / "m/predictions/dev_confusion.png").mkdir(parents=True)
    with pytest.raises(UserError, match="confusion.png is a folder"):
        dry_run.require_report(*how)
    (tmp_path / "m/eval_dev.json").write_text("{")
    with pytest.raises(UserError, match="eval_dev.json is not valid JSON"):
        dry_run.require_report(*how)

    def fails(outputs, folder, *more):
        raise ZeroDivisionError

    (tmp_path / "m/eval_dev.json").unlink()
    toy.write_report = fails
    with pytest.raises(ZeroDivisionError):
        dry_run.require_report(*how)
