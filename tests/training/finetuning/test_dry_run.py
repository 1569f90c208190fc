"""`--dry_run` makes what an evaluation and a prediction of each task write."""

import json
import os
import types

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.classifier import reports
from data.finetuning.options import (
    FeatureOptions,
    RaceDataOptions,
    TaggingDataOptions,
)
from data.finetuning.race.task import RaceTask
from data.finetuning.tagging.task import TaggingTask
from data.finetuning.task import Split, Task
from modeling.encoders.registry import new_config, write_config
from tests.helpers.runs import squad as run_squad
from tests.helpers.runs.classifier import make_job, make_options, write_task
from tests.helpers.runs.race import write_race
from tests.helpers.runs.tagger import write_sentences
from training.finetuning import dry_run
from training.finetuning.driver import Driver
from training.reporting import loss_log
from training.run_options import OptimizerOptions

ASKED = {"do_train": True, "do_eval": True, "do_predict": True}


def check(monkeypatch, task, options, outputs):
    """A dry run whose model gives these outputs of every first batch."""
    result = types.SimpleNamespace(predictions=outputs, labels={})
    monkeypatch.setattr(dry_run, "_one_step", lambda *arguments: None)
    monkeypatch.setattr(dry_run.loop, "evaluate", lambda *a, **k: result)
    monkeypatch.setattr(dry_run.loop, "predict", lambda *a, **k: dict(outputs))
    said = []
    dry_run.check(task, options, None, said.append)
    assert said[-1].startswith("dry run: all is well")


def refuses_folders(monkeypatch, folder, task, options, outputs, names):
    """All is well and nothing written; a folder of a file's name is named."""
    check(monkeypatch, task, options, outputs)
    assert not (folder / "model").exists()
    for name in names:
        place = folder / "model" / "predictions" / name
        place.mkdir(parents=True)
        with pytest.raises(UserError, match=f"{name} is a folder"):
            check(monkeypatch, task, options, outputs)
        place.rmdir()


def test_answers_of_questions(tmp_path, golden, spiece_model, monkeypatch):
    """Beams of the first windows, where other windows are shorter."""
    rng = np.random.default_rng(0)
    starts, ends = [3, 3], [3, 6]
    outputs = {
        "start_top_log_probs": -rng.random(starts),
        "start_top_index": rng.integers(0, 60, starts),
        "end_top_log_probs": -rng.random(ends),
        "end_top_index": rng.integers(0, 60, ends),
        "cls_logits": rng.normal(size=3),
    }
    options = make_options(tmp_path, **ASKED)
    task = run_squad.make_job(golden, spiece_model, options).load()
    assert task.evals["dev"].table.num_rows > 3
    names = ("dev_examples.tsv", "predictions.json", "null_odds.json")
    refuses_folders(monkeypatch, tmp_path, task, options, outputs, names)


def test_a_training_that_contradicts_itself(
    tmp_path, golden, spiece_model, monkeypatch
):
    """SQuAD's evaluations have no loss that a trigger could look at."""
    monkeypatch.setattr(dry_run, "check", lambda *arguments: None)
    write_task(tmp_path)  # the architecture, too
    averages = OptimizerOptions(average_trigger=2)
    options = make_options(
        tmp_path,
        dry_run=True,
        run={"optimizer": averages, "eval_every": 1},
        **ASKED,
    )
    task = run_squad.make_job(golden, spiece_model, options).load()
    with pytest.raises(UserError, match="--average_trigger counts evaluations"):
        Driver(task, options).run()
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kind", ["conll", "jsonl"])
def test_tags_of_texts(tmp_path, spiece_model, monkeypatch, kind):
    """Logits of the first batch are shorter: it was of a bucket."""
    write_sentences(tmp_path, kind)
    options = make_options(tmp_path, **ASKED)
    task = TaggingTask(
        TaggingDataOptions(str(tmp_path), doc_stride=5),
        FeatureOptions(spiece_model, 16, length_buckets="8"),
        options,
    ).load()
    shape = [2, 8, len(task.labels)]
    outputs = {"logits": np.random.default_rng(0).normal(size=shape)}
    names = ("dev_report.txt", f"test_predictions.{kind}")
    refuses_folders(monkeypatch, tmp_path, task, options, outputs, names)


def test_options_of_questions(tmp_path, spiece_model, monkeypatch):
    write_race(tmp_path)
    options = make_options(tmp_path, **ASKED)
    task = RaceTask(
        RaceDataOptions(str(tmp_path), max_qa_length=12),
        FeatureOptions(spiece_model, 40),
        options,
    ).load()
    outputs = {"logits": np.random.default_rng(0).normal(size=[2, 4])}
    names = ("dev_examples.tsv", "dev_predictions.tsv")
    refuses_folders(monkeypatch, tmp_path, task, options, outputs, names)


def test_a_damaged_file_of_an_earlier_evaluation(
    tmp_path, spiece_model, monkeypatch
):
    write_race(tmp_path)
    options = make_options(tmp_path, do_train=True, do_eval=True)
    task = RaceTask(
        RaceDataOptions(str(tmp_path), max_qa_length=12),
        FeatureOptions(spiece_model, 40),
        options,
    ).load()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/eval_dev.json").write_text(json.dumps([])[:1])
    outputs = {"logits": np.zeros([2, 4])}
    with pytest.raises(UserError, match="eval_dev.json is not valid JSON"):
        check(monkeypatch, task, options, outputs)


def test_a_dry_run_makes_the_reports(tmp_path):
    """What would fail after the training fails before it."""
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


@pytest.mark.slow
@pytest.mark.shared
def test_the_first_batch_has_the_loss_of_the_run(tmp_path, spiece_model):
    """It begins with the same weights: checkpoint, its choice, and head."""
    write_task(tmp_path)
    optimizer = OptimizerOptions(learning_rate=3e-2)

    def start(name, said=None, init_head="tsv", **actions):
        run = {"model_dir": str(tmp_path / name), "optimizer": optimizer}
        if name != "first":
            run |= {"init_checkpoint": str(tmp_path / "first")}
        head = "" if name == "first" else init_head
        actions = {"do_train": True, "init_head": head} | actions
        options = make_options(tmp_path, run=run, **actions)
        job = make_job(tmp_path, spiece_model, options)
        say = [].append if said is None else said.append
        return Driver(job, options, say=say).run()

    start("first")
    said = []
    start("second", said, dry_run=True)
    start("second")
    names, rows = loss_log.read(str(tmp_path / "second"))
    loss = rows[0, 1 + names.index("loss")]
    assert f"first batch  loss {loss:.5g}" in said
    assert f"weights      {tmp_path}/first/model.ckpt-3 (the newest)" in said
    with pytest.raises(UserError, match="--init_head=mnli: --init_checkpoint"):
        start("third", init_head="mnli", dry_run=True)
    assert not (tmp_path / "third").exists()
    (tmp_path / "third").mkdir()
    path = write_config(str(tmp_path / "third"), new_config("bert", 11, {}))
    with pytest.raises(UserError, match=f"{path} is of another encoder"):
        start("third", dry_run=True)
