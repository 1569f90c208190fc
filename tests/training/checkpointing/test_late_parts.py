"""A run goes on: with other options, from folders that lost something."""

import dataclasses
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling import XLNetConfig
from tests.helpers.runs import toy
from training import loop
from training.checkpointing.run_state import open_run
from training.objectives.build import build_objective
from training.objectives.multi_task import MultiTaskObjective, TaskPart

OPTIMIZER = toy.run_options("x").optimizer


def _train(folder, steps=4, optimizer=OPTIMIZER, **changes):
    """(result, lines) of a run to `steps`, saved at 2 and at the end."""
    lines = []
    values = {"train_steps": steps, "save_steps": 2, "iterations": 2}
    evaluated = {"eval_input_fn": changes.pop("eval_input_fn", None)}
    options = toy.run_options(folder, **(values | changes), optimizer=optimizer)
    result = loop.train(
        toy.ToyObjective(),
        toy.input_fn,
        options,
        say=lines.append,
        **evaluated,
    )
    return result, lines


def _two_batches(params):
    return toy.input_fn(params, 2)


@pytest.fixture(scope="module")
def four_steps(tmp_path_factory):
    """A run of four steps, saved after two and after four."""
    folder = tmp_path_factory.mktemp("run") / "m"
    _train(folder)
    return folder


@pytest.fixture
def run(four_steps, tmp_path):
    return shutil.copytree(four_steps, tmp_path / "m")


def _log(folder):
    return (folder / "losses.tsv").read_text()


def _noted(lines, text):
    return [
        line for line in lines if line.startswith("note: ") and text in line
    ]


def test_what_begins_behind_the_last_step_continues_nothing(run):
    optimizer = dataclasses.replace(OPTIMIZER, ema_decay=0.5)
    result, lines = _train(run, optimizer=optimizer)
    (note,) = _noted(lines, "averages of the weights begin at step 4")
    assert note.endswith("begin at step 4: no step is left to train")
    assert result.step == 4 and not _noted(lines, "the run continues")


@pytest.mark.long
def test_averages_that_are_added_begin_at_the_weights(run):
    before = _log(run)
    weights = tf.train.load_checkpoint(str(run / "model.ckpt-4"))
    optimizer = dataclasses.replace(OPTIMIZER, ema_decay=0.5)
    result, lines = _train(run, 5, optimizer)
    assert result.step == 5 and _log(run).startswith(before)
    assert len(_noted(lines, "averages of the weights begin at step 4")) == 1
    # After one step: the middle between the weights of step 4 and of step 5.
    reader = tf.train.load_checkpoint(str(run / "model.ckpt-5"))
    key = next(
        k
        for k in reader.get_variable_to_shape_map()
        if k.startswith("optimizer/ema/") and "bias" in k
    )
    name = "model/bias/.ATTRIBUTES/VARIABLE_VALUE"
    wanted = (weights.get_tensor(name) + reader.get_tensor(name)) / 2
    np.testing.assert_allclose(reader.get_tensor(key), wanted, rtol=1e-6)
    # From then on they are saved, and without them it goes on, too.
    _, lines = _train(run, 6, optimizer)
    assert not _noted(lines, "averages of the weights begin")
    assert _train(run, 7)[0].step == 7


def test_a_mean_of_the_last_steps_needs_them(run):
    late = dataclasses.replace(OPTIMIZER, average_last=3)
    with pytest.raises(UserError, match="give --average_last=2 or less") as e:
        _train(run, 6, late)
    assert "holds no averages" in str(e.value) and "\n" not in str(e.value)
    result, lines = _train(
        run, 6, dataclasses.replace(OPTIMIZER, average_last=2)
    )
    assert result.step == 6 and _noted(lines, "begin at step 4")


def test_a_mean_is_of_the_updates_that_are_asked_for(tmp_path):
    """A longer run, or another number, wants another mean than was begun."""
    folder = tmp_path / "m"
    # The number of steps is not in the rate.
    constant = dataclasses.replace(OPTIMIZER, decay_method="constant")
    three = dataclasses.replace(constant, average_last=3)
    _train(folder, 4, three)  # the mean of the steps 2, 3, 4
    for steps, last, ways in (
        (5, 3, "4 to go on with its mean, or 1 or less, or a larger"),
        (4, 2, "3 to go on with its mean, or a larger"),
    ):
        other = dataclasses.replace(constant, average_last=last)
        with pytest.raises(UserError, match=f"give --average_last={ways}") as e:
            _train(folder, steps, other)
        assert "after 1: give" in str(e.value) and "\n" not in str(e.value)
    four = dataclasses.replace(constant, average_last=4)
    _train(folder, 5, four)
    _train(tmp_path / "whole", 5, four)
    readers = [
        tf.train.load_checkpoint(str(where / "model.ckpt-5"))
        for where in (folder, tmp_path / "whole")
    ]
    names = [
        k
        for k in readers[0].get_variable_to_shape_map()
        if k.startswith("optimizer/ema/")
    ]
    assert len(names) == 3
    for name in names:
        np.testing.assert_array_equal(*(r.get_tensor(name) for r in readers))
    # A mean that begins after the steps that were made is a new one.
    assert _train(folder, 9, three)[0].step == 9


@pytest.mark.long
def test_a_trigger_keeps_the_evaluations_that_it_counts(tmp_path):
    """The line was TensorFlow's, about shapes."""
    two = dataclasses.replace(OPTIMIZER, average_trigger=2)
    held_out = {"eval_every": 2, "eval_input_fn": _two_batches}
    _train(tmp_path, 4, two, **held_out)
    three = dataclasses.replace(OPTIMIZER, average_trigger=3)
    with pytest.raises(UserError) as e:
        _train(tmp_path, 6, three, **held_out)
    assert str(e.value) == (
        f"--average_trigger=3: {tmp_path}/model.ckpt-4 has the losses that "
        "--average_trigger=2 looks at: give 2"
    )
    assert _train(tmp_path, 6, two, **held_out)[0].step == 6


@pytest.mark.long
@pytest.mark.parametrize("rule", ["average_trigger", "average_last"])
def test_a_mean_that_has_not_begun_is_the_weights(tmp_path, rule):
    """The first evaluation was of the moving averages that were there."""
    moving = dataclasses.replace(OPTIMIZER, ema_decay=0.5)
    _train(tmp_path, 4, moving)
    later = dataclasses.replace(OPTIMIZER, **{rule: 1})
    options = toy.run_options(
        tmp_path, train_steps=6, eval_every=2, optimizer=later
    )
    learner = open_run(toy.ToyObjective(), options).learner
    averages = learner.optimizer.averages.by_name
    assert averages.keys() <= learner.variables.keys() and averages
    for name, average in averages.items():
        np.testing.assert_array_equal(average, learner.variables[name])


def test_a_mean_of_a_version_that_did_not_save_its_beginning_goes_on(tmp_path):
    three = dataclasses.replace(OPTIMIZER, average_last=3)
    options = toy.run_options(tmp_path, train_steps=6, optimizer=three)
    state = open_run(toy.ToyObjective(), options)
    del state.learner.optimizer.state.mean_begin
    state.learner.optimizer.step.assign(4)
    state.checkpoints.save(4)
    again = open_run(toy.ToyObjective(), options)
    assert again.start_step == 4 and not again.notes
    assert int(again.learner.optimizer.averages.mean_begin) == 3


def _open_in_float16(run):
    options = toy.run_options(run, train_steps=6)
    options = options.replace(
        strategy=dataclasses.replace(
            options.strategy, precision="mixed_float16"
        )
    )
    try:
        return open_run(toy.ToyObjective(), options)
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")


def test_a_loss_scale_begins_where_it_is_added(run):
    state = _open_in_float16(run)
    assert state.start_step == 4
    assert state.learner.loss_scale.scale.numpy() == 2.0**15
    assert _noted(state.notes, "loss scale begins at step 4")


def test_a_loss_scale_that_counted_no_overflows_counts_them_from_now(run):
    state = _open_in_float16(run)
    scale = state.learner.loss_scale
    scale.scale.assign(8.0)
    state.learner.optimizer.step.assign(5)
    skipped = scale.state.skipped
    del scale.state.skipped  # as of an earlier version
    state.checkpoints.save(5)
    again = _open_in_float16(run)
    assert again.learner.loss_scale.scale.numpy() == 8.0
    assert _noted(again.notes, "overflow are counted from step 5")
    # From then on the count is saved.
    scale.state.skipped = skipped
    skipped.assign(3)
    state.learner.optimizer.step.assign(6)
    state.checkpoints.save(6)
    again = _open_in_float16(run)
    assert int(again.learner.loss_scale.skipped) == 3 and not again.notes


def test_updates_of_tasks_that_were_not_counted_begin_at_the_step(tmp_path):
    config = XLNetConfig(
        vocab_size=20, d_model=8, n_layer=1, n_head=2, d_head=4, d_inner=12
    )
    parts = [
        TaskPart(
            name,
            build_objective("classification", config, num_labels=2),
            6,
        )
        for name in "ab"
    ]
    options = toy.run_options(tmp_path / "m")
    state = open_run(MultiTaskObjective(config, parts), options)
    del state.learner.optimizer.state.turns  # as of an earlier version
    state.learner.optimizer.step.assign(3)
    state.checkpoints.save(3)
    again = open_run(MultiTaskObjective(config, parts), options)
    assert again.learner.optimizer.turns.numpy().tolist() == [3, 3]
    assert _noted(again.notes, "updates of each task are counted from step 3")


def test_another_optimizer_goes_on(run):
    result, lines = _train(
        run, 6, dataclasses.replace(OPTIMIZER, optimizer="stable_adamw")
    )
    assert result.step == 6 and _noted(lines, "`optimizer.optimizer` wanted")


@pytest.mark.long
def test_layers_that_were_frozen_have_no_slots(tmp_path):
    frozen = dataclasses.replace(OPTIMIZER, freeze_layers=1)
    _train(tmp_path / "m", 3, frozen)
    with pytest.raises(UserError, match="--freeze_layers") as e:
        _train(tmp_path / "m", 4)
    assert "\n" not in str(e.value) and "damaged" not in str(e.value)
    assert _train(tmp_path / "m", 4, frozen)[0].step == 4


@pytest.mark.long
def test_without_the_record_of_the_run_one_line_says_so(run):
    os.remove(run / "run.json")
    result, lines = _train(run, 6)
    assert result.step == 6
    assert len(_noted(lines, "run.json is missing")) == 1
    assert (run / "run.json").exists()
    assert not _noted(_train(run, 8)[1], "run.json")


@pytest.mark.long
@pytest.mark.parametrize("lost", ["newest index", "newest data", "name", "all"])
@pytest.mark.parametrize("name", ["m", "runs [1] *?/m"])
def test_what_is_lost_is_trained_again_and_no_more(
    four_steps, tmp_path, name, lost
):
    run = shutil.copytree(four_steps, tmp_path / name)
    before = _log(run)
    if lost == "newest index":
        os.remove(run / "model.ckpt-4.index")
    if lost == "newest data":
        os.remove(run / "model.ckpt-4.data-00000-of-00001")
    if lost == "name":
        (run / "checkpoint").write_text('model_checkpoint_path: "/old/c-9"\n')
    if lost == "all":
        os.remove(run / "checkpoint")
    result, lines = _train(run, 6)
    begun = [line for line in lines if line.startswith("step ")]
    assert begun[0].startswith(
        "step 6/" if lost in ("name", "all") else "step 4/"
    )
    # Of the steps before, nothing is written anew.
    kept = before.splitlines()[:3]
    rows = _log(run).splitlines()
    assert result.step == 6 and rows[:3] == kept
    assert [row.split("\t")[0] for row in rows[1:]] == [*"123456"]
    assert result.checkpoint == str(run / "model.ckpt-6")


def test_where_none_is_whole_nothing_is_trained(run):
    before = _log(run)
    for step in (2, 4):
        os.remove(run / f"model.ckpt-{step}.index")
    names = sorted(os.listdir(run))
    with pytest.raises(UserError, match="no whole checkpoint") as e:
        _train(run, 6)
    assert "\n" not in str(e.value)
    assert _log(run) == before and sorted(os.listdir(run)) == names
