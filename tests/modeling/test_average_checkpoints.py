"""The command says which checkpoints it averaged, and where the mean lies."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import ClassificationModel, XLNetConfig, average_checkpoints
from modeling.checkpoints import restore
from modeling.command_options import AverageOptions
from modeling.encoders.registry import write_config

CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=1, n_head=3, d_head=4, d_inner=10
)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs it on a folder of two checkpoints, of 1 and 4; its lines."""
    folder = tmp_path / "run"
    folder.mkdir()
    model = ClassificationModel(CONFIG, 3)
    for step, value in ((7, 1.0), (9, 4.0)):
        for variable in model.variables:
            variable.assign(tf.fill(variable.shape, value))
        checkpoint = tf.train.Checkpoint(model=model)
        checkpoint.write(str(folder / f"model.ckpt-{step}"))
    write_config(str(folder), CONFIG)

    def run(last):
        def build(kind):
            return kind(str(folder), str(tmp_path / "mean"), last)

        monkeypatch.setattr(average_checkpoints.flag_values, "build", build)
        average_checkpoints.main()
        return capsys.readouterr().out.splitlines()

    return run


def test_the_mean_is_written_and_said(command, tmp_path):
    lines = command(2)
    assert lines[-2].endswith("2 checkpoints: model.ckpt-7, model.ckpt-9")
    assert lines[-1] == f"written: {tmp_path / 'mean'}"
    model = ClassificationModel(CONFIG, 3)
    restore.restore(model, str(tmp_path / "mean"), require="all")
    for variable in model.variables:
        np.testing.assert_allclose(variable, 2.5)


def test_a_mistake_prints_nothing_and_writes_nothing(command, tmp_path):
    with pytest.raises(UserError, match="holds 2 checkpoint.s., wanted the"):
        command(3)
    assert not (tmp_path / "mean").exists()
    with pytest.raises(UserError, match="--last must be >= 1"):
        AverageOptions("a", "b", last=0)
