"""The log is cut and read; where a run has left the unigram plateau."""

import errno

import numpy as np
import pytest

from common.errors import UserError
from training.reporting import loss_log
from training.reporting.loss_log import LossLog


def write(folder, losses, names=("loss",)):
    """A log whose first column are these losses."""
    rows = np.zeros([len(losses), len(names)], np.float32)
    rows[:, -1] = losses
    LossLog(str(folder), 0).append(1, list(names), rows)
    return str(folder)


def test_the_plateau_ends_where_twenty_losses_lie_below_it(tmp_path):
    losses = np.full(100, 6.5)
    losses[30] = 1.0  # one lucky batch: the mean of 20 stays above 6.0
    losses[60:] = 5.5
    # At step 60 + k the mean is 6.5 - k / 20; it is below 6.0 after k = 11.
    assert loss_log.plateau_end(write(tmp_path, losses), 6.5) == 71


def test_a_run_that_stays_on_it_or_is_too_short_has_no_end(tmp_path):
    assert loss_log.plateau_end(write(tmp_path, [6.1] * 50), 6.5) is None
    assert loss_log.plateau_end(write(tmp_path, [1.0] * 19), 6.5) is None
    assert loss_log.plateau_end(write(tmp_path, [1.0] * 20), 6.5) == 20


def test_steps_without_a_target_do_not_end_it(tmp_path):
    """Rows of padding alone have the loss 0."""
    losses = np.full(100, 6.5)
    losses[40:60] = 0.0
    assert loss_log.plateau_end(write(tmp_path, losses), 6.5) is None
    losses[60:] = 5.5
    assert loss_log.plateau_end(write(tmp_path, losses), 6.5) == 71


def test_losses_of_pairs_do_not_count(tmp_path):
    folder = write(tmp_path, [5.0] * 30, ("loss", "accuracy", "lm_loss"))
    assert loss_log.plateau_end(folder, 6.5) == 20
    names, rows = loss_log.read(folder)
    assert names[0] == "loss" and not rows[:, 1].any()


def test_the_log_is_cut_to_the_restored_step(tmp_path):
    log = LossLog(str(tmp_path), 0)
    rows = np.array([[1.5, 0.1], [1.25, 0.1], [1 / 3, 0.1]], np.float32)
    log.append(1, ["loss", "rate"], rows)
    log.append(4, ["loss", "rate"], rows)
    with open(log.path, "a") as f:
        f.write("7\t0.12")  # killed while writing
    LossLog(str(tmp_path), 4).append(5, ["loss", "rate"], rows[:1])
    names, found = loss_log.read(str(tmp_path))
    assert names == ["loss", "rate"]
    assert found[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert np.float32(found[2, 1]) == np.float32(1 / 3)
    with pytest.raises(UserError, match="columns"):
        LossLog(str(tmp_path), 4).append(5, ["loss"], rows[:, :1])
    # A run that starts anew leaves nothing of an earlier one.
    LossLog(str(tmp_path), 0)
    assert (tmp_path / "losses.tsv").read_text() == ""


def test_a_log_that_is_gone_does_not_begin_anew(tmp_path):
    """It went on without its header and the steps before."""
    log = LossLog(str(tmp_path), 0)
    log.append(1, ["loss"], np.ones((1, 1), np.float32))
    (tmp_path / "losses.tsv").unlink()
    with pytest.raises(UserError, match="cannot write .*losses.tsv"):
        log.append(2, ["loss"], np.ones((1, 1), np.float32))
    assert not list(tmp_path.iterdir())


def test_a_log_that_cannot_be_read_stays(tmp_path, monkeypatch):
    """It was taken for none, and a resumed run wrote an empty one over it."""
    folder = write(tmp_path, [2.0, 1.0])
    before = (tmp_path / "losses.tsv").read_text()

    def unreadable(path):
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patch:
        patch.setattr(loss_log.files, "open_binary", unreadable)
        with pytest.raises(OSError, match="Input/output error"):
            LossLog(folder, 2)
    assert (tmp_path / "losses.tsv").read_text() == before


def test_half_a_line_is_left_out_and_no_step_is_one_line(tmp_path):
    write(tmp_path, [2.0, 1.0], ("loss", "accuracy"))
    with open(tmp_path / "losses.tsv", "a") as f:
        f.write("3\t0.")  # killed while writing
    assert loss_log.read(str(tmp_path))[1][:, 0].tolist() == [1, 2]
    for text in ("", "step\tloss\n"):
        (tmp_path / "losses.tsv").write_text(text)
        with pytest.raises(UserError, match="a line per step, found none"):
            loss_log.read(str(tmp_path))
    for rows in ("1\t1\n2\n", "1\t1\t1\n", "1\n"):
        (tmp_path / "losses.tsv").write_text("step\tloss\n" + rows)
        with pytest.raises(UserError, match="wanted rows of numbers"):
            loss_log.read(str(tmp_path))
