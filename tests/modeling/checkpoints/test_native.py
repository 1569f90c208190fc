"""Our checkpoints beside the objects of a training."""

import errno
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, XLNetConfig
from modeling.checkpoints import native
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables

SMALL_CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


@pytest.mark.long
def test_native_survives_other_objects(tmp_path):
    """As training writes it: optimizer, step, memory beside the model."""
    model = PretrainingModel(SMALL_CONFIG, next_sentence=True)
    step = tf.Variable(3, dtype=tf.int64)
    path = tf.train.Checkpoint(
        model=model, step=step, variables=list(model.variables)
    ).save(str(tmp_path / "run"))
    for where in (
        str(tmp_path),
        path,
        path + ".index",
        str(tmp_path / "checkpoint"),
    ):
        again = PretrainingModel(SMALL_CONFIG, next_sentence=True)
        report = checkpoints.restore(again, where)
        assert not report.fresh and not report.unused
        for name, variable in named_variables(model).items():
            np.testing.assert_array_equal(
                variable, named_variables(again)[name]
            )


def test_moving_averages_are_read_where_a_run_kept_them(tmp_path):
    model = PretrainingModel(SMALL_CONFIG)
    state = tf.Module(name="optimizer")
    names = list(named_variables(model))
    state.ema = {
        name: tf.Variable(variable + 1.0)
        for name, variable in named_variables(model).items()
        if name != names[-1]  # a frozen variable has none
    }
    checkpoint = tf.train.Checkpoint(model=model, optimizer=state)
    checkpoint.save(str(tmp_path / "model.ckpt"))
    other = PretrainingModel(SMALL_CONFIG)
    checkpoints.restore(other, str(tmp_path))
    found = named_variables(other)
    for name, variable in named_variables(model).items():
        wanted = variable if name == names[-1] else variable + 1.0
        np.testing.assert_array_equal(found[name], wanted, err_msg=name)


@pytest.mark.parametrize("stored", ["a/b", "encoder/a/b"])
@pytest.mark.parametrize("own", ["a/b", "encoder/a/b"])
def test_an_encoder_is_found_in_a_task_model_and_alone(own, stored):
    found, surplus = native.by_name(
        {("x", stored): np.ones(1), ("head",): np.ones(2)}, {"name": own}
    )
    assert list(found) == ["name"] and surplus == ["head"]


def test_what_stands_beside_an_encoder():
    arrays = {("x", "encoder/a"): 1, ("head", "y"): 2, ("pooler",): 3}
    assert native.beside_encoder(arrays) == {"head", "pooler"}
    assert native.beside_encoder({("a",): 1, ("b",): 2}) == set()


def test_a_folder_may_be_a_link_to_one(tmp_path):
    """It was refused behind the work, and half of a folder stayed."""
    real, link = tmp_path / "disk" / "real", tmp_path / "link"
    link.symlink_to(real)
    with pytest.raises(FileExistsError), native.new_folder(str(link)):
        pass
    real.mkdir(parents=True)
    with native.new_folder(str(link)) as folder:
        (pathlib.Path(folder) / "a").write_text("x")
    assert link.is_symlink() and (real / "a").read_text() == "x"
    assert os.listdir(real.parent) == ["real"]
    assert sorted(os.listdir(tmp_path)) == ["disk", "link"]


def test_a_folder_that_cannot_be_renamed_leaves_nothing(tmp_path, monkeypatch):
    def full(*unused):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(native.tf.io.gfile, "rename", full)
    with (
        pytest.raises(OSError, match="Input"),
        native.new_folder(str(tmp_path / "a")),
    ):
        pass
    assert not list(tmp_path.iterdir())
