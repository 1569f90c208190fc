"""What options of fine-tuning refuse together, in one line each."""

import pytest

from common.errors import UserError
from training.finetuning.options import (
    BALANCED,
    JOINT,
    OTHERS,
    FinetuneOptions,
    MultiTaskOptions,
)
from training.run_options import RunOptions, StrategyOptions


def make(run=(), **changes):
    run = RunOptions(**({"model_dir": "m"} | dict(run)))
    return FinetuneOptions(run, **changes)


VOTE = {"do_eval": True, "ensemble": ("a", "b")}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, "nothing to do: give --do_train, --do_eval, --do_predict or"),
        (
            {"do_train": True, "run": {"eval_every": 2, "eval_steps": 1}},
            "--eval_steps=1: wanted -1, .*--eval_every=N says how often",
        ),
        ({"do_train": True, "summary_type": "cls"}, "--summary_type must be"),
        ({"do_train": True, "pooling": "all"}, "--pooling must be one of mask"),
        (
            {"do_train": True, "pack": True, "pooling": "original"},
            "counts padding, which --pack leaves out: give one of them",
        ),
        ({"do_train": True, "run": {"patience": 1}}, "--patience needs --eval"),
        (
            {"do_train": True, "best_metric": "loss"},
            "--best_metric=loss picks one of several .*--eval_every, .*all_ckpt",
        ),
        (
            {"do_train": True, "label_smoothing": 1.0},
            r"--label_smoothing must be in \[0, 1\)",
        ),
        ({"do_train": True, "train_epochs": -1.0}, "--train_epochs must be"),
        ({"do_train": True, "train_examples": -1}, "--train_examples must be"),
        ({"do_train": True, "num_seeds": 0}, "--num_seeds must be >= 1"),
        ({"do_predict": True, "predict_batch_size": -1}, "size must be >= 0"),
        ({"do_train": True, "num_seeds": 2}, "it needs --do_eval and no"),
        (
            {"do_eval": True, "num_seeds": 2, "predict_ckpt": "x"},
            "--num_seeds compares metrics: .* no --predict_ckpt",
        ),
        ({"do_predict": True, "eval_all_ckpt": True}, "--eval_all_ckpt needs"),
        (
            {"do_predict": True, "slice_by_length": True},
            "--slice_by_length needs --do_eval",
        ),
        ({"do_eval": True, "greedy": True}, "and --greedy need --ensemble"),
        (
            {"do_eval": True, "ensemble_weights": (1.0,)},
            "--ensemble_weights and --greedy need --ensemble",
        ),
        (VOTE | {"ensemble": ("a", "a/")}, "--ensemble names a folder twice"),
        (VOTE | {"ensemble_weights": (1.0,)}, "wanted one per folder"),
        (VOTE | {"ensemble_weights": (1.0, 0.0)}, "must be positive"),
        *(
            (VOTE | more, "leave out --do_train, --do_export, --dry_run and")
            for more in (
                {"do_train": True},
                {"do_export": True},
                {"dry_run": True},
                {"num_seeds": 2},
            )
        ),
        *(
            (VOTE | more, "reads the best checkpoint of each folder: leave")
            for more in ({"predict_ckpt": "x"}, {"eval_all_ckpt": True})
        ),
        (
            {"do_predict": True, "ensemble": ("a",), "greedy": True},
            "--greedy chooses on the dev split: it needs --do_eval",
        ),
        (
            VOTE | {"greedy": True, "ensemble_weights": (1.0, 2.0)},
            "no --ensemble_weights",
        ),
    ],
)
def test_what_does_not_go_together(changes, message):
    with pytest.raises(UserError, match=message) as e:
        make(**changes)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"do_train": True, "run": {"patience": 1, "eval_every": 2}},
        {"do_train": True, "summary_type": None, "pack": True},
        {"do_eval": True, "num_seeds": 2, "eval_all_ckpt": True},
        {"do_predict": True, "ensemble": ("a", "b")},
        VOTE | {"greedy": True},
        VOTE | {"ensemble_weights": (0.5, 2.0), "slice_by_length": True},
    ],
)
def test_what_does(changes):
    made = make(**changes)
    for name, value in changes.items():
        if name != "run":
            assert getattr(made, name) == value


@pytest.mark.parametrize(
    "weights",
    [(1.0, -1.0), (0.0,), (float("inf"),), (float("nan"),), (BALANCED, 1.0)],
)
def test_weights_of_classes_are_numbers_or_balanced(weights):
    with pytest.raises(UserError, match="--class_weights: wanted positive"):
        make(do_train=True, class_weights=weights)
    for good in ((), (BALANCED,), (1.0, 0.25, 3.0)):
        assert make(do_train=True, class_weights=good).class_weights == good


def together(tasks=("rte", "sst-2"), weights=(1.0, 2.0), **more):
    return MultiTaskOptions(tasks, (8,) * len(tasks), weights, **more)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"tasks": ()}, "--task_name: wanted names of tasks"),
        ({"tasks": ("rte", "rte")}, "--task_name names rte twice"),
        ({"tasks": ("tfds:a", "rte")}, "=tfds:a is for run_classifier.py"),
        ({"tasks": ("a/b",)}, "=a/b is for run_classifier.py"),
        ({"weights": (1.0, 0.0)}, "--task_weights must be positive"),
        ({"weights": (1.0, float("nan"))}, "--task_weights must be positive"),
        ({"mixing": "random"}, "--mixing must be one of proportional"),
        ({"schedule": "glue"}, "--schedule must be one of"),
    ],
)
def test_tasks_that_cannot_be_together(changes, message):
    with pytest.raises(UserError, match=message):
        together(**changes)
    assert together().tasks == ("rte", "sst-2")


def test_the_papers_parts_share_no_task():
    assert not set(JOINT) & set(OTHERS)
    assert together(tasks=JOINT + OTHERS).schedule == ""


def test_the_last_of_several_seeds_is_one():
    """It was refused after the trainings of all before it."""
    strategy = StrategyOptions(seed=2**31 - 2)
    both = {"run": {"strategy": strategy}, "do_eval": True}
    assert make(**both, num_seeds=2).num_seeds == 2
    with pytest.raises(UserError, match="=3 from --seed=2147483646 ends with"):
        make(**both, num_seeds=3)


def test_predictions_have_batches_of_their_own():
    run = {"eval_batch_size": 4}
    assert make(run, do_predict=True).predict_run.eval_batch_size == 4
    own = make(run, do_predict=True, predict_batch_size=6)
    assert own.predict_run.eval_batch_size == 6
    assert own.run.eval_batch_size == 4
