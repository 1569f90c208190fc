"""Runs of the left-to-right objective: resume, replicas, parts of a batch."""

import dataclasses
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import averaging, restore
from modeling.checkpoints.names import named_variables
from modeling.command_options import AverageOptions
from tests.helpers.runs import toy
from tests.helpers.runs.lm import ADAPTIVE
from tests.modeling.golden import txl_golden
from training import loop
from training.objectives.build import build_objective
from training.reporting import loss_log

CONFIG = ADAPTIVE.replace(dropout=0.2, dropatt=0.1)
T = 4


def batches(count, rows, seed=0):
    """Steps of row-wise streams; some rows start anew, some tokens do not
    count."""
    rng = np.random.default_rng(seed)
    streams = rng.integers(0, 29, [rows, count * T + 1]).astype(np.int32)
    weights = (rng.random([rows, count * T]) < 0.9).astype(np.float32)
    reset = rng.random([count, rows]) < 0.2
    reset[0] = True

    def cut(x):
        return x.reshape(rows, count, T).swapaxes(0, 1)

    return {
        "input_ids": cut(streams[:, :-1]),
        "target_ids": cut(streams[:, 1:]),
        "target_weights": cut(weights),
        "reset_memory": reset,
    }


def input_fn(params):
    arrays = batches(16, params["batch_size"])
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    return dataset.skip(params.get("start_step", 0)).repeat()


def train(folder, config=CONFIG, **changes):
    changes = dict(train_batch_size=4, train_steps=6, save_steps=3) | changes
    options = toy.run_options(folder, **changes)
    objective = build_objective("language_model", config)
    return loop.train(objective, input_fn, options, say=lambda line: None)


def losses(folder):
    return loss_log.read(str(folder))[1]


def held_out(params):
    arrays = batches(2, params["batch_size"], seed=7)
    return tf.data.Dataset.from_tensor_slices(arrays)


def train_with_everything(folder):
    """Dropout of words and of whole texts; averages from a trigger on."""
    config = CONFIG.replace(variational_dropout=True, word_dropout=0.3)
    options = toy.run_options(
        folder, train_batch_size=4, train_steps=6, save_steps=3, eval_every=1
    )
    # Random tokens and a high rate: the loss of others does not keep falling.
    optimizer = dataclasses.replace(
        options.optimizer, learning_rate=0.3, average_trigger=1
    )
    return loop.train(
        build_objective("language_model", config),
        input_fn,
        options.replace(optimizer=optimizer, eval_batch_size=4),
        eval_input_fn=held_out,
        say=lambda line: None,
    )


def averages(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.startswith(("optimizer/ema", "optimizer/trigger"))
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "run", [train, pytest.param(train_with_everything, marks=pytest.mark.slow)]
)
def test_a_run_that_is_cut_off_goes_on_bit_by_bit(tmp_path, run):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(whole)
    assert not np.isnan(losses(whole)).any()
    shutil.copytree(whole, cut)
    # As a process leaves it that dies after step 3 was saved.
    for name in os.listdir(cut):
        if name.startswith("model.ckpt-6."):
            gone = cut / name
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    text = (cut / "checkpoint").read_text()
    (cut / "checkpoint").write_text(text.replace("ckpt-6", "ckpt-3"))
    result = run(cut)
    assert result.step == 6
    np.testing.assert_array_equal(losses(cut), losses(whole))
    if run is train:
        return
    name = "evaluations.jsonl"
    assert (cut / name).read_text() == (whole / name).read_text()
    found, wanted = (averages(x / "model.ckpt-6") for x in (cut, whole))
    assert wanted["optimizer/trigger/begin/.ATTRIBUTES/VARIABLE_VALUE"] < 6
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.slow
def test_replicas_and_parts_give_the_run_of_one(tmp_path):
    """Rows keep their own memory; without dropout, whose masks differ."""
    config = CONFIG.replace(dropout=0.0, dropatt=0.0)
    train(tmp_path / "one", config)
    for replicas, parts in ((1, 2), (4, 1), (2, 2)):
        folder = tmp_path / f"{replicas}-{parts}"
        train(
            folder,
            config,
            distribution="mirrored" if replicas > 1 else "one_device",
            replicas=replicas,
            grad_accumulation_steps=parts,
        )
        # Sums are added in another order.
        np.testing.assert_allclose(
            losses(folder),
            losses(tmp_path / "one"),
            rtol=2e-5,
            atol=5e-6,
            err_msg=folder.name,
        )


@pytest.mark.slow
def test_lengths_that_vary_need_no_known_length(tmp_path):
    """The run with T unknown to the graph is the run with T known."""

    def unknown(params):
        def forget(batch, columns):
            return {
                name: x[:, :columns] if x.shape.rank == 2 else x
                for name, x in batch.items()
            }

        columns = tf.data.Dataset.from_tensors(T).repeat()
        made = tf.data.Dataset.zip((input_fn(params), columns)).map(forget)
        assert made.element_spec["input_ids"].shape[1] is None
        return made

    config = CONFIG.replace(variational_dropout=True, word_dropout=0.2)
    for name, batches_of in (("known", input_fn), ("unknown", unknown)):
        options = toy.run_options(
            tmp_path / name,
            train_batch_size=4,
            train_steps=6,
            grad_accumulation_steps=2,
        )
        objective = build_objective("language_model", config)
        loop.train(objective, batches_of, options, say=lambda line: None)
    np.testing.assert_allclose(
        losses(tmp_path / "unknown"), losses(tmp_path / "known"), rtol=1e-5
    )


@pytest.mark.slow
def test_other_settings_of_memory_fit_the_same_weights(tmp_path):
    """An evaluation may change M, clamping and masks; no size."""
    from training.checkpointing.checkpoints import check_config

    train(tmp_path)
    other = CONFIG.replace(mem_len=17, clamp_len=5, same_length=True)
    check_config(str(tmp_path), build_objective("language_model", other))
    wrong = build_objective("language_model", CONFIG.replace(d_inner=13))
    with pytest.raises(UserError, match="d_inner.*wanted 13, found 12"):
        check_config(str(tmp_path), wrong)
    with pytest.raises(UserError, match="needs model_type transformer_xl"):
        build_objective("language_model", toy.CONFIG)


@pytest.mark.long
def test_other_masks_of_dropout_are_noted(tmp_path):
    lines = []
    for steps, variational in ((3, False), (4, True)):
        config = CONFIG.replace(variational_dropout=variational)
        loop.train(
            build_objective("language_model", config),
            input_fn,
            toy.run_options(tmp_path, train_batch_size=4, train_steps=steps),
            say=lines.append,
        )
    noted = "`variational_dropout` wanted True, found False: the run continues"
    assert any(noted in line for line in lines)


def test_a_folder_without_checkpoints_has_no_mean(tmp_path):
    with pytest.raises(UserError, match="holds 0.*wanted the last 5"):
        averaging.average(AverageOptions(str(tmp_path), str(tmp_path / "x")))


@pytest.mark.slow
def test_the_mean_of_the_last_checkpoints(tmp_path):
    train(tmp_path / "run", train_steps=9)
    options = AverageOptions(str(tmp_path / "run"), str(tmp_path / "mean"), 2)
    lines = averaging.average(options)
    assert "2 checkpoints: model.ckpt-6, model.ckpt-9" in lines[0]

    def weights(path):
        model = build_objective("language_model", CONFIG).build_model()
        restore.restore(model, str(path))
        return {k: v.numpy() for k, v in named_variables(model).items()}

    older = weights(tmp_path / "run" / "model.ckpt-6")
    newer = weights(tmp_path / "run" / "model.ckpt-9")
    found = weights(tmp_path / "mean")
    for name, value in found.items():
        np.testing.assert_allclose(
            value, (older[name] + newer[name]) / 2, atol=1e-7
        )
    assert np.abs(older[name] - newer[name]).max() > 1e-4
    with pytest.raises(UserError, match="holds 3.*wanted the last 4"):
        averaging.average(
            AverageOptions(str(tmp_path / "run"), str(tmp_path / "x"), 4)
        )


@pytest.mark.shared
def test_the_originals_mean(golden):
    arrays = txl_golden.load(golden, "averaged")
    inputs = [key for key in arrays if key.startswith("input_")]
    names = {key.split("/", 1)[1] for key in inputs}
    for name in names:
        given = [arrays[key] for key in inputs if key.endswith("/" + name)]
        assert len(given) > 1
        mean = averaging.Mean()
        for value in given:
            mean.add(value)
        np.testing.assert_allclose(mean.value(), arrays[name], atol=1e-7)
