"""The mean of the last checkpoints of a run."""

import weakref

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import ClassificationModel, XLNetConfig
from modeling.checkpoints import averaging, restore
from modeling.checkpoints.names import named_variables
from modeling.command_options import AverageOptions
from modeling.encoders.registry import write_config
from modeling.heads.multi_task import MultiTaskModel

CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=1, n_head=3, d_head=4, d_inner=10
)


@pytest.fixture
def run(tmp_path):
    """Three checkpoints whose weights are 1, 2 and 4."""
    folder = tmp_path / "run"
    folder.mkdir()
    model = ClassificationModel(CONFIG, 2)
    checkpoint = tf.train.Checkpoint(model=model)
    for step, value in ((10, 1.0), (20, 2.0), (30, 4.0)):
        for variable in model.variables:
            variable.assign(tf.fill(variable.shape, value))
        checkpoint.write(str(folder / f"model.ckpt-{step}"))
    write_config(str(folder), CONFIG)
    for name in ("spiece.model", "task.json", "run.json", "losses.tsv"):
        (folder / name).write_text(name)
    return folder


def average(run, last):
    output = run.parent / f"mean-{last}"
    options = AverageOptions(str(run), str(output), last)
    return output, averaging.average(options)


@pytest.mark.parametrize("last, wanted", [(2, 3.0), (3, 7 / 3)])
def test_the_last_ones_count(run, last, wanted):
    output, lines = average(run, last)
    model = ClassificationModel(CONFIG, 2)
    report = restore.restore(model, str(output), require="all")
    assert not report.fresh
    for name, variable in named_variables(model).items():
        np.testing.assert_allclose(variable, wanted, rtol=1e-6, err_msg=name)
    assert f"averaged over {last} checkpoints: " in lines[-2]
    assert lines[-2].endswith("model.ckpt-20, model.ckpt-30")


def test_vocabulary_and_task_come_along_and_the_runs_own_files_do_not(run):
    """Nor does the lock of a training that goes on, nor what was measured."""
    for name in (".lock", "seeds.json", "eval_dev.json", "spiece.json"):
        (run / name).write_text(name)
    output, _ = average(run, 2)
    names = {path.name for path in output.iterdir()}
    assert {name for name in names if "ckpt" not in name} == {
        *("checkpoint", "xlnet_config.json", "task.json"),
        *("spiece.model", "spiece.json"),
    }


def test_heads_of_several_tasks_are_said_to_be_left_out(run):
    tasks = {"a": {"head": "classification", "num_labels": 2}}
    model = MultiTaskModel(CONFIG, tasks)
    for step in (40, 50):
        path = str(run / f"model.ckpt-{step}")
        tf.train.Checkpoint(model=model).write(path)
    _, lines = average(run, 2)
    wanted = "left out, another head: heads/a/class_dense/kernel"
    assert wanted in lines


def test_too_few_checkpoints_and_an_output_that_is_there(run):
    with pytest.raises(UserError, match="holds 3 checkpoint.s., wanted the la"):
        average(run, 4)
    average(run, 2)
    with pytest.raises(UserError, match="is not empty"):
        average(run, 2)


def test_a_mean_is_summed_in_double_precision():
    mean = averaging.Mean()
    for x in (1e8, 4.0, 4.0, 4.0):
        mean.add(np.float32([x]))
    found = mean.value()
    assert found.dtype == np.float32
    assert found[0] == np.float32(25_000_003.0) != np.float32(25_000_000.0)


def test_of_the_checkpoints_their_sum_alone_is_kept():
    """The memory grew with their number."""
    mean, kept = averaging.Mean(), []
    for x in range(5):
        value = np.full([4], x, np.float32)
        kept.append(weakref.ref(value))
        mean.add(value)
    del value
    assert not any(ref() is not None for ref in kept)
    assert mean.value().tolist() == [2.0] * 4
