"""Failures of a run in one line each: numbers that diverge, lost processes."""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.optim.loss_scale import LossScale
from training.step import guards


def test_a_norm_that_is_never_finite_ends_the_run():
    """A finite loss would go on for ever without training anything."""
    names = ["loss", "gradient_norm"]
    rows = np.array([[2.5, 1.0], [2.5, np.nan]], np.float32)
    scale = LossScale(2.0)
    run = types.SimpleNamespace(
        learner=types.SimpleNamespace(loss_scale=scale),
        checkpoints=types.SimpleNamespace(latest=lambda: "m-4"),
    )
    guards.check_finite(rows, names, 5, run)  # left out, and the scale falls
    scale.scale.assign(1.0)
    with pytest.raises(UserError, match="gradient_norm is nan at step 6 .*m-4"):
        guards.check_finite(rows, names, 5, run)
    guards.check_finite(rows[:1], names, 5, run)


def run_of(latest=None):
    """A run without a loss scale."""
    return types.SimpleNamespace(
        learner=types.SimpleNamespace(loss_scale=None),
        checkpoints=types.SimpleNamespace(latest=lambda: latest),
    )


@pytest.mark.parametrize("column", ["loss", "gradient_norm"])
def test_the_first_number_that_is_not_finite_names_its_step(column):
    names = ["lr", "gradient_norm", "loss"]
    rows = np.ones([4, 3], np.float32)
    guards.check_finite(rows, names, 9, run_of())
    rows[2:, names.index(column)] = np.inf, np.nan
    with pytest.raises(UserError) as info:
        guards.check_finite(rows, names, 9, run_of())
    assert str(info.value) == (
        f"{column} is inf at step 11 (steps 9-12); nothing was saved; lower "
        "--learning_rate, lengthen --warmup_steps or check the data"
    )
    with pytest.raises(UserError, match="; last good checkpoint m-8; lower"):
        guards.check_finite(rows, names, 9, run_of("m-8"))
    # Other columns may be anything.
    rows[:] = 1.0
    rows[:, 0] = np.nan
    guards.check_finite(rows, names, 9, run_of())


def test_a_loss_that_is_not_finite_ends_a_run_with_a_scale_too():
    run = run_of()
    run.learner.loss_scale = LossScale(2.0)
    rows = np.array([[np.nan, 1.0]], np.float32)
    with pytest.raises(UserError, match="loss is nan at step 1 "):
        guards.check_finite(rows, ["loss", "gradient_norm"], 1, run)


def translated(error, processes=1, latest=None):
    """What a run ends with, for what TensorFlow raised."""
    checkpoints = run_of(latest).checkpoints
    with pytest.raises(Exception) as info:
        with guards.translate_errors(processes, checkpoints):
            raise error
    return info.value


def of(kind, message):
    return kind(None, None, message)


def test_an_error_of_ours_inside_a_dataset_is_itself():
    inside = "Traceback\n  File x\ncommon.errors.UserError: a.tsv: 3 columns\n"
    found = translated(of(tf.errors.UnknownError, inside + " [[node]]"), 2)
    assert isinstance(found, UserError) and str(found) == "a.tsv: 3 columns"


def test_memory_that_is_full_names_flags():
    found = translated(
        of(tf.errors.ResourceExhaustedError, "OOM of [9,9]\n at node x"), 2
    )
    assert isinstance(found, UserError)
    assert "--grad_accumulation_steps" in str(found)
    assert str(found).endswith("(OOM of [9,9])")


def test_a_disk_that_is_full_is_no_memory():
    error = of(
        tf.errors.ResourceExhaustedError,
        "{{node x}} /out/train/events.1; No space left on device",
    )
    assert translated(error) is error
    assert translated(error, 2) is error


@pytest.mark.parametrize(
    "error",
    [
        of(tf.errors.UnavailableError, "no answer"),
        of(tf.errors.UnknownError, "Collective ops is aborted by: no answer"),
        of(tf.errors.InvalidArgumentError, "at n\naborted by: gRPC no answer"),
    ],
)
def test_a_lost_process_is_a_reason_to_start_all_again(error):
    found = translated(error, 2, "m-4")
    assert isinstance(found, UserError)
    assert "no answer" in str(found) and "\n" not in str(found)
    assert str(found).endswith("again, it resumes from m-4")
    assert str(translated(error, 2)).endswith("resumes from the beginning")
    # One process has no peers.
    assert translated(error) is error


def test_a_damaged_file_and_other_errors():
    found = translated(of(tf.errors.DataLossError, "corrupted record at 8"), 2)
    assert str(found) == "an input file is damaged: corrupted record at 8"
    other = of(tf.errors.InvalidArgumentError, "shapes differ")
    assert translated(other, 2) is other
    mistake = ValueError("collective")
    assert translated(mistake, 2) is mistake


def test_a_long_message_is_cut():
    found = translated(of(tf.errors.DataLossError, "x" * 500))
    assert str(found).count("x") == 160
    nothing = translated(of(tf.errors.DataLossError, ""))
    assert str(nothing).endswith(": DataLossError")
