"""What a run begins with: its own checkpoint, a warm start, or a seed."""

import dataclasses
import os
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import native
from modeling.encoders.registry import new_config, write_config
from tests.helpers.runs import toy
from training.checkpointing import memory_files, run_state
from training.checkpointing.memory_files import HostRows
from training.checkpointing.run_state import open_run
from training.objectives.build import build_objective
from training.reporting import run_record

ROWS = 8
STEP = 5


def values(variables):
    return [v.numpy() for v in variables]


def memory_of(numbers):
    """What each of the toy's rows remembers is a function of its number."""
    numbers = np.asarray(numbers)
    layer = np.arange(ROWS * 3 * 4, dtype=np.float32).reshape(ROWS, 3, 4)
    return HostRows(numbers, [layer[numbers]], (numbers % 4).astype(np.int32))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a checkpoint of step 5, its weights and its memory."""
    folder = tmp_path_factory.mktemp("run")
    state = open_run(toy.ToyObjective(), toy.run_options(folder))
    assert (state.start_step, state.restored_from) == (0, None)
    assert state.chief and state.weights is None and state.notes == ()
    for i, variable in enumerate(state.learner.model.variables):
        variable.assign(tf.fill(variable.shape, i + 0.5))
    state.learner.memory.from_host(memory_of(range(ROWS)))
    state.learner.optimizer.step.assign(STEP)
    state.checkpoints.save(STEP)
    return folder


def test_a_run_goes_on_from_its_own_checkpoint(saved):
    """Even where a warm start is asked for, and then nothing looks for it."""
    options = toy.run_options(saved, init_checkpoint="gone")

    def warm_start(model):
        raise AssertionError("the run has a checkpoint")

    state = open_run(toy.ToyObjective(), options, warm_start)
    assert state.start_step == STEP and state.weights is None
    assert state.restored_from == str(saved / f"model.ckpt-{STEP}")
    for i, value in enumerate(values(state.learner.model.variables)):
        assert np.unique(value).tolist() == [i + 0.5]
    found, wanted = state.learner.memory.to_host(), memory_of(range(ROWS))
    np.testing.assert_array_equal(found.length, wanted.length)
    np.testing.assert_array_equal(found.layers[0], wanted.layers[0])


@pytest.mark.parametrize(
    "changes",
    [{"reset_memory": True}, {"memory_checkpoint": "recompute"}],
    ids=str,
)
def test_a_memory_that_is_not_wanted_is_empty(saved, changes):
    state = open_run(toy.ToyObjective(), toy.run_options(saved, **changes))
    assert state.start_step == STEP
    found = state.learner.memory.to_host()
    assert not found.length.any() and not found.layers[0].any()


def test_a_configuration_of_another_encoder_is_not_left_beside(tmp_path):
    """A run that died left it: evaluations took it for that of the weights."""
    path = write_config(str(tmp_path), new_config("bert", 11, {}))
    options = toy.run_options(tmp_path)
    with pytest.raises(UserError, match="/config.json is of another encoder"):
        open_run(toy.ToyObjective(), options)
    os.remove(path)
    write_config(str(tmp_path), toy.CONFIG)
    assert open_run(toy.ToyObjective(), options).start_step == 0


def test_other_settings_are_said_before_a_checkpoint_that_does_not_fit(
    tmp_path, monkeypatch
):
    """One task more changes a shape: the checkpoint was "damaged"."""
    options = toy.run_options(tmp_path)
    state = open_run(toy.ToyObjective(), options)
    state.learner.optimizer.step.assign(STEP)
    state.checkpoints.save(STEP)
    must = {"tasks": ["rte", "cola"]}
    run_record.update(str(tmp_path), {}, must, {}, resuming=False)
    assert open_run(toy.ToyObjective(), options, None, must).start_step == STEP

    def restore(*what):
        raise UserError("does not fit this run or is damaged")

    monkeypatch.setattr(run_state.RunCheckpoints, "restore", restore)
    with pytest.raises(UserError, match="damaged"):
        open_run(toy.ToyObjective(), options, None, must)
    other = {"tasks": ["rte"]}
    # The memory of other settings would be said to need --reset_memory, with
    # which the run is refused, too.
    monkeypatch.setattr(run_state, "_open_memory", restore)
    with pytest.raises(UserError, match=r"`tasks` wanted \['rte'\], found"):
        open_run(toy.ToyObjective(), options, None, other)


def test_another_batch_names_both_numbers_and_all_ways(saved):
    options = toy.run_options(saved, train_batch_size=ROWS - 2)
    with pytest.raises(UserError, match=f"the memory of {ROWS} rows") as e:
        open_run(toy.ToyObjective(), options)
    message = str(e.value)
    for part in (
        f"wanted --train_batch_size={ROWS - 2}; give --train_batch_size={ROWS}",
        "--memory_checkpoint=recompute",
        "--reset_memory",
    ):
        assert part in message
    assert "\n" not in message


def test_a_memory_of_other_sizes_or_none_is_refused(tmp_path):
    path = str(tmp_path / "model.ckpt-3")
    wanted = types.SimpleNamespace(rows=ROWS, shape=(1, 3, 4))
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(path)
    with pytest.raises(UserError, match="holds no memory; give --memory_check"):
        run_state._open_memory(path, wanted)
    folder = memory_files.folder_of(path)
    memory_files.write(folder, memory_of(range(ROWS)))
    memory_files.write_index(folder, ROWS, threading.Event())
    assert run_state._open_memory(path, wanted).rows == ROWS
    wanted.shape = (1, 2, 4)
    with pytest.raises(UserError, match=r"\(1, 3, 4\) .* wanted \(1, 2, 4\)"):
        run_state._open_memory(path, wanted)


def test_an_odd_batch_of_two_directions_is_refused_before_any_file(tmp_path):
    options = toy.run_options(tmp_path / "m", train_batch_size=7)
    with pytest.raises(UserError, match="2 directions"):
        open_run(toy.ToyObjective(), options)
    assert not (tmp_path / "m").exists()


def classifier():
    return build_objective("classification", toy.CONFIG, num_labels=3)


def with_seed(options, seed):
    strategy = dataclasses.replace(options.strategy, seed=seed)
    return options.replace(strategy=strategy)


def test_a_start_of_another_architecture_is_said(tmp_path):
    """Its upper layers are left out, and other activations fit the shapes."""
    start = tmp_path / "start"
    theirs = toy.CONFIG.replace(n_layer=2, ff_activation="relu", mem_len=9)
    other = build_objective("classification", theirs, num_labels=3)
    native.write(str(start), other.build_model(), theirs)
    options = toy.run_options(tmp_path / "m", init_checkpoint=str(start))
    (note,) = open_run(classifier(), options).notes
    assert note.startswith(
        f"note: {start}/xlnet_config.json: `n_layer` wanted 1, found 2; "
        "`ff_activation` wanted gelu, found relu: "
    )
    # The memory and what weights do not depend on are the run's own.
    write_config(str(start), toy.CONFIG.replace(mem_len=9, dropout=0.5))
    assert open_run(classifier(), options).notes == ()
    (start / "xlnet_config.json").write_text("{}")
    assert open_run(classifier(), options).notes == ()
    (start / "xlnet_config.json").unlink()
    assert open_run(classifier(), options).notes == ()


def test_a_folder_with_the_weights_of_a_release_is_refused(tmp_path):
    """Export and prediction would read those, not what is trained there."""
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="holds model.safetensors, which"):
        open_run(toy.ToyObjective(), toy.run_options(tmp_path))


def test_the_seed_alone_makes_the_weights(tmp_path):
    """A second run of the process has the weights of the first."""
    found = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        options = with_seed(toy.run_options(tmp_path / name), seed)
        model = open_run(classifier(), options).learner.model
        found.append(np.concatenate([v.ravel() for v in values(model.weights)]))
    assert found[0].tobytes() == found[1].tobytes() != found[2].tobytes()


def test_random_weights_are_changed_too(tmp_path):
    """Where nothing is restored the averages begin with the changes as well."""
    options = toy.run_options(tmp_path / "m")
    optimizer = dataclasses.replace(options.optimizer, ema_decay=0.5)

    def warm_start(model):
        for variable in model.weights:
            variable.assign(tf.fill(variable.shape, 0.25))
        return ()

    state = open_run(
        classifier(), options.replace(optimizer=optimizer), warm_start
    )
    assert (state.start_step, state.restored_from) == (0, None)
    assert state.weights is None and state.notes == ()
    averages = state.learner.optimizer.averages.by_name
    assert averages
    for average in averages.values():
        assert np.unique(average).tolist() == [0.25]


def test_a_warm_start_is_read_changed_and_averaged(tmp_path):
    """In this order: averages begin where the weights do."""
    tf.keras.utils.set_random_seed(9)
    other = classifier().build_model()
    start = str(tmp_path / "start" / "x")
    tf.train.Checkpoint(model=other).write(start)
    options = toy.run_options(tmp_path / "m", init_checkpoint=start)
    optimizer = dataclasses.replace(options.optimizer, ema_decay=0.5)
    options = options.replace(optimizer=optimizer)
    changed = []

    def warm_start(model):
        for ours, theirs in zip(model.weights, other.weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        changed.append(model.weights[-1])
        changed[0].assign(tf.ones_like(changed[0]))
        return ["one is changed"]

    state = open_run(classifier(), options, warm_start)
    assert len(changed) == 1 and state.start_step == 0
    assert state.notes == ("one is changed",)
    assert state.restored_from == state.weights.path == start
    averages = state.learner.optimizer.averages.by_name
    assert averages
    for name, average in averages.items():
        np.testing.assert_array_equal(average, state.learner.variables[name])
    assert (changed[0].numpy() == 1.0).all()
    with pytest.raises(UserError, match="no checkpoint at .*gone"):
        open_run(classifier(), options.replace(init_checkpoint="gone"))
