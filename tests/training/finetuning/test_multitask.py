"""Several tasks on one encoder: objective, batches, options of each task."""

import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.classifier.task import ClassifierTask
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.features.table import from_sequences
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from modeling import XLNetConfig
from modeling.checkpoints import native
from tests.helpers.model_folders import write_joint_run
from tests.helpers.runs.classifier import CONFIG, make_options
from tests.helpers.runs.multitask import (
    LENGTHS,
    TASKS,
    command_fields,
    run,
    write_tasks,
)
from training.finetuning import multitask, multitask_command
from training.finetuning.driver import Driver
from training.objectives.build import build_objective
from training.objectives.multi_task import MultiTaskObjective, TaskPart
from training.reporting import loss_log
from training.run_options import OptimizerOptions, StrategyOptions


def test_training_may_be_all_that_is_asked_for(
    tmp_path, spiece_model, monkeypatch
):
    write_tasks(tmp_path)
    for name in ("build_objective", "split_heads"):
        monkeypatch.setattr(multitask, name, lambda *arguments: None)
    trained = []
    monkeypatch.setattr(
        multitask, "_train", lambda *arguments: not trained.append(arguments)
    )
    results, _ = run(tmp_path, spiece_model, "alone", do_train=True)
    assert results == {} and len(trained) == 1


@pytest.mark.long
def test_a_tasks_metric_keeps_its_best(tmp_path, spiece_model, monkeypatch):
    """The least of errors and losses, the most of all others."""
    write_tasks(tmp_path)
    seen, said = [], []

    def train(objective, input_fn, options, **more):
        seen.append((options.best_metric, options.best_higher))
        raise KeyboardInterrupt  # what follows is none of this test's

    monkeypatch.setattr(multitask.loop, "train", train)

    def start(name, tasks=TASKS):
        options = make_options(
            tmp_path,
            do_train=True,
            best_metric=name,
            run={
                "eval_every": 2,
                "optimizer": OptimizerOptions(learning_rate=1e-5),
            },
        )
        fields = command_fields(tmp_path, spiece_model, tasks, options)
        multitask_command.together(fields, say=said.append)

    for name, higher in (
        ("", True),
        ("mean", True),
        ("rte/accuracy", True),
        ("sts-b/mse", False),
        ("rte/loss", False),
    ):
        with pytest.raises(KeyboardInterrupt):
            start(name)
        assert seen[-1] == (name or "mean", higher)
    assert sum("=1e-05 is low for a model" in line for line in said) == 5
    with pytest.raises(KeyboardInterrupt):
        start("rte/accuracy", ("rte",))
    seen.clear()
    for wrong in ("accuracy", "rte/pearson", "mnli/accuracy"):
        with pytest.raises(
            UserError, match="--best_metric must be one of"
        ) as e:
            start(wrong)
        assert "mean, sst-2/accuracy, sst-2/loss, sts-b/pearson" in str(e.value)
    assert not seen


def test_another_length_than_the_trained_one_is_said(
    tmp_path, spiece_model, monkeypatch
):
    write_tasks(tmp_path)
    monkeypatch.setattr(Driver, "run", lambda self: {})
    monkeypatch.setattr(Driver, "__init__", lambda self, *arguments: None)
    monkeypatch.setattr(multitask, "require_trained", lambda *arguments: None)
    owner = ClassifierTask(
        ClassifierDataOptions("rte", str(tmp_path)),
        FeatureOptions(spiece_model, 24),
        make_options(tmp_path, do_eval=True),
    )
    folder = tmp_path / "joint" / "tasks" / "rte"
    folder.mkdir(parents=True)
    owner.load().spec().write(str(folder))
    _, said = run(tmp_path, spiece_model, "joint", do_eval=True)
    assert said == [
        f"note: --max_seq_length=16, {folder}/task.json says 24",
    ]


def test_a_task_is_evaluated_as_a_model_of_its_own(tmp_path):
    options = make_options(
        tmp_path,
        do_train=True,
        do_eval=True,
        do_predict=True,
        train_epochs=2.0,
        predict_dir="out",
        run={
            "init_checkpoint": "start",
            "eval_every": 3,
            "patience": 2,
            "checkpoint_choice": "best",
        },
    )
    found = multitask._own_options("rte", options)
    assert found.run.model_dir == str(tmp_path / "model" / "tasks" / "rte")
    assert found.predict_dir == "out/rte" and found.export_dir == ""
    assert not found.do_train and found.do_eval and found.do_predict
    run = found.run
    assert (run.init_checkpoint, run.eval_every, run.patience) == (None, 0, 0)
    # The folder has one model, which the training chose.
    assert run.checkpoint_choice == "auto"


class ToyTask:
    """What a run asks of a task whose model is trained."""

    def __init__(self, metric, head="classification"):
        self.best_metric = metric
        self.train = None
        self.tokenizer = types.SimpleNamespace(vocab_size=7)
        self._spec = types.SimpleNamespace(head=head, head_options={})

    def spec(self):
        return self._spec


@pytest.fixture
def evaluated(tmp_path, monkeypatch):
    """Results of a run that evaluates two tasks, and what it says."""
    scores = {"rte": 0.5, "sts-b": 0.75}
    seen = []

    class ToyDriver:
        def __init__(self, task, options, export, flags, say):
            seen.append(options)
            self.name = options.run.model_dir.rpartition("/")[2]
            self.task, self.predicts = task, options.do_eval

        def run(self):
            if not self.predicts:
                return {}
            dev = {self.task.best_metric: scores[self.name], "loss": 9.0}
            return {"dev": dev, "other": {}}

    (tmp_path / "model").mkdir()
    monkeypatch.setattr(multitask.driver, "Driver", ToyDriver)
    monkeypatch.setattr(
        multitask.driver, "check_trained", lambda spec, options: ["noted"]
    )
    tasks = {"rte": ToyTask("accuracy"), "sts-b": ToyTask("pearson")}
    for name in tasks:
        folder = tmp_path / "model" / "tasks" / name
        folder.mkdir(parents=True)
        saved = tf.train.Checkpoint(x=tf.Variable(1.0))
        saved.write(str(folder / "ckpt-1"))
    settings = multitask.MultiTaskOptions(tuple(tasks), (8, 9), (1.0, 1.0))

    def run(**actions):
        said = []
        options = make_options(tmp_path, **actions)
        found = multitask.run(tasks, settings, options, say=said.append)
        return found, said, tmp_path / "model" / multitask.RESULTS

    return run


def test_the_mean_is_of_each_tasks_own_metric(evaluated):
    found, said, path = evaluated(do_eval=True)
    assert list(found) == ["rte", "sts-b"]
    assert said == [
        *(["noted"] * 2),
        "mean of the tasks' main metrics: 0.625",
    ]
    stored = json.loads(path.read_text())
    assert stored == {"tasks": found, "mean": 0.625}


def test_a_prediction_alone_has_no_mean(evaluated):
    found, said, path = evaluated(do_predict=True)
    assert found == {} and said == ["noted"] * 2 and not path.exists()


def test_a_task_without_a_model_is_named_before_any_is_asked(
    evaluated, tmp_path
):
    gone = tmp_path / "model" / "tasks" / "sts-b"
    for path in gone.iterdir():
        path.unlink()
    with pytest.raises(UserError, match=f"{gone} holds no model of sts-b: giv"):
        evaluated(do_eval=True)


def test_an_evaluation_of_all_is_that_of_each():
    class One:
        def __init__(self, **metrics):
            self.metrics, self.steps = metrics, []

        def run(self, steps):
            self.steps.append(steps)
            return types.SimpleNamespace(metrics=self.metrics)

    first, second = One(accuracy=0.5, loss=2.0), One(pearson=0.75)
    both = multitask._Together(
        {"rte": ("accuracy", first), "sts-b": ("pearson", second)}
    )
    assert both.run(3).metrics == {
        "rte/accuracy": 0.5,
        "rte/loss": 2.0,
        "sts-b/pearson": 0.75,
        "mean": 0.625,
    }
    assert first.steps == second.steps == [3]


def test_what_tasks_cannot_have_together(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"n_token": 7}))
    settings = multitask.MultiTaskOptions(("squad",), (8,), (1.0,))
    tasks = {"squad": ToyTask("f1", "span")}
    options = make_options(tmp_path, do_train=True)
    packed = dataclasses.replace(options, pack=True)
    with pytest.raises(UserError, match="--pack: .* not packed; leave it out"):
        multitask.build_objective(tasks, settings, packed)
    with pytest.raises(UserError, match="squad is of the head span"):
        multitask.build_objective(tasks, settings, options)


def test_batches_have_the_lengths_and_the_shares_of_their_tasks(tmp_path):
    """Of three and six examples by their number; rows are of one task."""
    tables, tasks = [], {}
    for name, count in (("rte", 3), ("sst-2", 6)):
        rows = [Sequence1D([9 + i] * 2, [0, 1]) for i in range(count)]
        labels = {"label_ids": np.arange(count, dtype=np.int32)}
        tables.append(from_sequences(rows, labels))
        tasks[name] = types.SimpleNamespace(
            train=types.SimpleNamespace(table=tables[-1]),
            features=FeatureOptions("", 8),
        )
    settings = multitask.MultiTaskOptions(("rte", "sst-2"), (4, 5), (1.0, 1.0))
    options = make_options(tmp_path, do_train=True)
    made = multitask.mixed_batches(tasks, settings, options)
    assert made.order.counts().tolist() == [333, 667]
    assert [multitask.train_rows(task) for task in tasks.values()] == [3, 6]
    for step in range(5):
        batch = made.batch(step, 6)
        (number,) = set(batch["task"].tolist())
        assert number == made.order.at(step)[0]
        assert batch["input_ids"].shape == (6, settings.lengths[number])
        assert batch["label_ids"].max() < (3, 6)[number]
    uniform = dataclasses.replace(settings, mixing="uniform")
    made = multitask.mixed_batches(tasks, uniform, options)
    assert made.order.counts().tolist() == [500, 500]
    # One program of XLA cuts them itself.
    strategy = dataclasses.replace(options.run.strategy, jit_compile=True)
    compiled = dataclasses.replace(
        options, run=options.run.replace(strategy=strategy)
    )
    made = multitask.mixed_batches(tasks, settings, compiled)
    widths = {made.batch(step, 6)["input_ids"].shape for step in range(5)}
    assert widths == {(6, 5)}


@pytest.mark.slow
@pytest.mark.shared
def test_a_compiled_run_is_the_plain_one(tmp_path, spiece_model):
    """A branch of the program for every task, whatever the batch's own."""
    write_tasks(tmp_path)
    # XLA draws other masks of dropout.
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    settings = multitask.MultiTaskOptions(TASKS, LENGTHS, (1.0, 0.5, 1.0))
    rows = []
    for jit in (False, True):
        options = make_options(
            tmp_path,
            steps=4,
            do_train=True,
            run={
                "model_dir": str(tmp_path / str(jit)),
                "strategy": StrategyOptions(jit_compile=jit),
            },
        )
        tasks = {
            name: ClassifierTask(
                ClassifierDataOptions(name, str(tmp_path)),
                FeatureOptions(spiece_model, length),
                options,
            ).load()
            for name, length in zip(TASKS, LENGTHS, strict=True)
        }
        multitask.run(tasks, settings, options, say=lambda line: None)
        rows.append(loss_log.read(str(tmp_path / str(jit)))[1])
    assert len(set(rows[0][:, -1])) > 1
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-4)


def _spec(name):
    return TaskSpec(name, "classification", ("a", "b"), 8, TextSettings(), "0")


def test_another_split_keeps_what_is_beside_the_model(tmp_path, monkeypatch):
    config = XLNetConfig(
        vocab_size=9, d_model=4, n_layer=1, n_head=1, d_head=4, d_inner=4
    )
    single = build_objective("classification", config, num_labels=2)
    objective = MultiTaskObjective(config, [TaskPart("rte", single, 8, 1.0)])
    task = types.SimpleNamespace(spec=lambda: _spec("rte"))
    monkeypatch.setattr(
        multitask.driver,
        "write_task",
        lambda task, spec, folder: spec.write(folder),
    )

    def split(home, random_seed):
        write_joint_run(home, objective, random_seed)
        if random_seed:
            (tmp_path / "first" / "tasks").rename(home / "tasks")
        options = make_options(
            tmp_path, do_train=True, run={"model_dir": str(home)}
        )
        multitask.split_heads({"rte": task}, options, objective, str)
        return home / "tasks" / "rte"

    folder = split(tmp_path / "first", 0)
    first = native.read(str(folder / "ckpt-1"))
    (folder / "predictions").mkdir()
    (folder / "predictions" / "RTE.tsv").write_text("mine")
    (folder / "eval_dev.json").write_text("{}")
    names = {path.name for path in folder.iterdir()}
    (folder / ".new").mkdir()  # of a process that was killed
    folder = split(tmp_path / "second", 1)
    assert {path.name for path in folder.iterdir()} == names
    assert (folder / "predictions" / "RTE.tsv").read_text() == "mine"
    second = native.read(str(folder / "ckpt-1"))
    assert set(first) == set(second)
    assert any((first[name] != second[name]).any() for name in first)


def test_only_weights_of_an_earlier_run_go_before_a_training(tmp_path):
    home = tmp_path / "model"
    rte, other = home / "tasks" / "rte", home / "tasks" / "mine"
    for folder in (rte, other):
        folder.mkdir(parents=True)
        for name in ("ckpt-1.index", "checkpoint", "eval_dev.json"):
            (folder / name).write_text("x")
    _spec("rte").write(str(rte))
    tasks = {"rte": None, "sst-2": None}
    multitask._prepare_folders(tasks, str(home))
    assert {p.name for p in rte.iterdir()} == {"eval_dev.json", "task.json"}
    assert len(list(other.iterdir())) == 3
    # The user's own model of the same name, and files of the user's.
    (rte / "model.ckpt-9.index").write_text("x")
    with pytest.raises(UserError, match="tasks/rte .* did not write: move it"):
        multitask._prepare_folders(tasks, str(home))
    with pytest.raises(UserError, match="tasks/mine .* did not write"):
        multitask._prepare_folders({"mine": None}, str(home))
    assert len(list(other.iterdir())) == 3
