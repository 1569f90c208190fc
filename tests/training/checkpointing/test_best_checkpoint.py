"""The best weights: which are kept, over restarts, and what a new run moves."""

import contextlib
import json
import os
import resource
import types

import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import weights
from training.checkpointing.best_checkpoint import (
    OLD_BEST,
    BestCheckpoint,
    begin_anew,
)


def test_the_best_one_is_kept_over_restarts(tmp_path):
    module = tf.Module()
    module.w = tf.Variable(1.0)
    best = BestCheckpoint(str(tmp_path), module, "f1", higher=True)
    assert best.offer({"f1": 0.5}, 10)
    module.w.assign(2.0)
    again = BestCheckpoint(str(tmp_path), module, "f1", True, start_step=10)
    assert not again.offer({"f1": 0.4}, 20)
    assert again.offer({"f1": 0.6}, 30)
    assert os.path.exists(tmp_path / "best" / "model.ckpt-30.index")
    assert not os.path.exists(tmp_path / "best" / "model.ckpt-10.index")
    once = BestCheckpoint(str(tmp_path / "b"), module, "f1", higher=True)
    assert once.offer({"f1": 0.6}, 30)
    one, other = (
        (tmp_path / name / "model.ckpt-30.index").read_bytes()
        for name in ("best", "b/best")
    )
    assert one == other  # as without the restart
    with pytest.raises(UserError, match="best_metric"):
        again.offer({"loss": 1.0}, 40)


def test_a_killed_save_leaves_nothing(tmp_path):
    """Its temporary folder, or the best until then, stayed for good."""
    module = tf.Module()
    module.w = tf.Variable(1.0)

    def start(step=0):
        return BestCheckpoint(str(tmp_path), module, "f1", True, True, step)

    folder = tmp_path / "best"
    assert start().offer({"f1": 0.5}, 10)
    older = {path: path.read_bytes() for path in folder.iterdir()}
    half = folder / "model.ckpt-20_temp"
    for kept, step in ((10, 15), (20, 25)):
        half.mkdir()
        (half / "part-0").write_text("x")
        best = start(step)
        # Killed behind its weights: those until then are there, and named.
        assert not half.exists()
        assert best.offer({"f1": 0.6}, 20) == (kept == 10)
        whole = {path: path.read_bytes() for path in folder.iterdir()}
        assert len(whole) == 3 and (folder / "model.ckpt-20.index") in whole
        for path, content in older.items():
            path.write_bytes(content)
    start(30)
    assert {path: path.read_bytes() for path in folder.iterdir()} == whole


@contextlib.contextmanager
def disk_of(limit):
    """No file may grow beyond `limit` bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_best_one_until_now(tmp_path):
    module = tf.Module()
    module.w = tf.Variable(tf.fill([5000], 2.0))
    run = tf.train.Checkpoint(model=module)
    run.write(str(tmp_path / "model.ckpt-7"))
    best = BestCheckpoint(str(tmp_path), module, "f1", higher=True)
    assert best.offer({"f1": 0.5}, 3)
    before = sorted(os.listdir(tmp_path / "best"))
    with disk_of(4096):
        with pytest.raises(UserError) as info:
            best.offer({"f1": 0.7}, 7)
    assert f"saving {tmp_path}/best/model.ckpt-7 failed" in str(info.value)
    assert f"{tmp_path}/model.ckpt-7 is intact" in str(info.value)
    assert sorted(os.listdir(tmp_path / "best")) == before


@pytest.mark.parametrize(
    "higher, kept",
    [(True, [1, 3]), (False, [1, 2, 5])],
    ids=["higher", "lower"],
)
def test_the_first_of_equal_values_stays_the_best(tmp_path, higher, kept):
    best = BestCheckpoint(str(tmp_path), tf.Module(), "m", higher, chief=False)
    values = [0.5, 0.4, 0.75, 0.75, 0.25, 0.25]
    offered = [best.offer({"m": v}, i) for i, v in enumerate(values, 1)]
    assert [i for i, better in enumerate(offered, 1) if better] == kept
    assert int(best.step) == kept[-1]
    assert float(best.value) == values[kept[-1] - 1]


def test_a_value_that_is_no_number_is_never_the_best(tmp_path):
    best = BestCheckpoint(str(tmp_path), tf.Module(), "m", True, chief=False)
    nan = float("nan")
    offered = [best.offer({"m": v}, i) for i, v in enumerate([nan, 2, nan, 3])]
    assert offered == [False, True, False, True]
    assert float(best.value) == 3 and int(best.step) == 3


def test_a_step_that_is_evaluated_again_replaces_its_own_value(tmp_path):
    """Its weights may be others: what was kept of it is no more."""
    best = BestCheckpoint(str(tmp_path), tf.Module(), "m", True, chief=False)
    offered = [
        best.offer({"m": value}, step)
        for value, step in ((0.5, 10), (0.25, 10), (0.25, 10), (0.2, 20))
    ]
    assert offered == [True, True, False, False]
    assert float(best.value) == 0.25 and int(best.step) == 10


def kept_by_loss(folder, *rows, step=10, named=True):
    """`best/` of a run that kept 0.5, the loss of `step`, and its log."""
    best = BestCheckpoint(str(folder), tf.Module(), "loss", higher=False)
    if not named:  # as of an earlier version
        best._checkpoint = tf.train.Checkpoint(
            model=tf.Module(), value=best.value, step=best.step
        )
    assert best.offer({"loss": 0.5}, step)
    (folder / weights.LOG_NAME).write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )


def resumed(folder, metric, step=20, higher=True):
    made = BestCheckpoint(
        str(folder), tf.Module(), metric, higher, start_step=step
    )
    return float(made.value), int(made.step)


def test_another_metric_takes_over_where_its_best_is_what_is_kept(tmp_path):
    rows = [
        {"step": 5, "f1": float("nan"), "loss": 2.0},
        {"step": 10, "f1": 0.75, "loss": 0.5},
        {"step": 20, "f1": 0.75, "loss": 1.0},
        {"step": 30, "f1": 0.9, "loss": 0.25},  # after the checkpoint
    ]
    kept_by_loss(tmp_path, *rows)
    assert resumed(tmp_path, "loss", higher=False) == (0.5, 10)
    assert resumed(tmp_path, "f1") == (0.75, 10)
    with pytest.raises(UserError, match="best by f1 is at step 30") as e:
        resumed(tmp_path, "f1", step=30)
    assert "--best_metric=loss" in str(e.value) and "\n" not in str(e.value)
    with pytest.raises(UserError, match="best by bleu is in no evaluation"):
        resumed(tmp_path, "bleu")


def test_a_folder_without_the_name_of_its_metric_tells_it_by_the_log(tmp_path):
    rows = [{"step": 10, "f1": 0.1, "loss": 0.5}, {"step": 20, "f1": 0.2}]
    kept_by_loss(tmp_path, *rows, named=False)
    assert weights.read_best(str(tmp_path)).metric is None
    assert resumed(tmp_path, "loss", higher=False) == (0.5, 10)
    with pytest.raises(UserError, match="was kept by another metric") as e:
        resumed(tmp_path, "f1")
    assert "--best_metric=(the earlier one)" in str(e.value)


def test_what_a_run_finds_at_step_0_is_of_another_one(tmp_path):
    kept_by_loss(tmp_path)
    made = BestCheckpoint(str(tmp_path), tf.Module(), "f1", True)
    assert made.offer({"f1": -7.0}, 1)  # the first number is the best


def state_of(folder, chief=True, start_step=0, init_checkpoint=None):
    options = types.SimpleNamespace(
        model_dir=str(folder), init_checkpoint=init_checkpoint
    )
    return types.SimpleNamespace(
        options=options, chief=chief, start_step=start_step
    )


def test_a_run_that_begins_moves_the_best_of_a_dead_one(tmp_path):
    kept_by_loss(tmp_path, {"step": 10, "loss": 0.5})
    before = sorted(os.listdir(tmp_path))
    assert begin_anew(state_of(tmp_path, chief=False)) == []
    assert begin_anew(state_of(tmp_path, start_step=10)) == []
    assert sorted(os.listdir(tmp_path)) == before
    (tmp_path / OLD_BEST).mkdir()  # of a run before that one
    (tmp_path / OLD_BEST / "model.ckpt-3.index").write_text("x")
    (tmp_path / "best" / "model.ckpt-10_temp").mkdir()  # it was killed there
    (line,) = begin_anew(state_of(tmp_path))
    assert line.endswith(f"moved to {tmp_path / OLD_BEST}")
    assert os.listdir(tmp_path) == [OLD_BEST]
    assert not (tmp_path / OLD_BEST / "model.ckpt-3.index").exists()
    assert (tmp_path / OLD_BEST / "model.ckpt-10.index").exists()
    assert not (tmp_path / OLD_BEST / "model.ckpt-10_temp").exists()


def test_a_log_without_best_weights_goes_without_a_word(tmp_path):
    (tmp_path / weights.LOG_NAME).write_text('{"step": 3, "loss": 1.0}\n')
    assert begin_anew(state_of(tmp_path)) == []
    assert os.listdir(tmp_path) == []


def test_a_run_that_begins_with_its_own_best_loses_nothing(tmp_path):
    kept_by_loss(tmp_path, {"step": 10, "loss": 0.5})
    start = str(tmp_path / "best" / "model.ckpt-10")
    with pytest.raises(UserError, match="give another --model_dir"):
        begin_anew(state_of(tmp_path, init_checkpoint=start))
    assert sorted(os.listdir(tmp_path)) == ["best", weights.LOG_NAME]
    # A folder whose name begins alike is another one.
    other = tmp_path / "best2"
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(other / "model.ckpt-1"))
    state = state_of(tmp_path, init_checkpoint=str(other / "model.ckpt-1"))
    assert len(begin_anew(state)) == 1
