"""Checkpoints: a full disk, leftovers of a killed process, other models."""

import contextlib
import os
import pathlib
import resource
import subprocess
import threading

import pytest
import tensorflow as tf

from common.errors import UserError
from training.checkpointing.checkpoints import RunCheckpoints

ROOT = pathlib.Path(__file__).resolve().parents[3]


@contextlib.contextmanager
def disk_of(limit):
    """No file may grow beyond `limit` bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def make(folder, value=0.0, size=5000, max_save=2):
    module = tf.Module()
    module.w = tf.Variable(tf.fill([size], value))
    return module, RunCheckpoints(str(folder), {"model": module}, max_save)


def test_a_full_disk_is_one_line_and_the_last_checkpoint_stays(tmp_path):
    module, checkpoints = make(tmp_path, 1.0)
    checkpoints.save(10)
    module.w.assign_add(tf.ones([5000]))
    with disk_of(4096):
        with pytest.raises(UserError, match="ckpt-10 is intact") as e:
            checkpoints.save(20)
    assert "\n" not in str(e.value)
    assert not [f for f in os.listdir(tmp_path) if "ckpt-20" in f]
    again, others = make(tmp_path)
    assert others.latest().endswith("ckpt-10")
    others.restore(others.latest())
    assert again.w.numpy().tolist() == [1.0] * 5000
    # With space again the same object goes on.
    checkpoints.save(20)
    assert checkpoints.latest().endswith("ckpt-20")


def test_what_lost_a_file_stays_and_the_save_before_it_is_taken(tmp_path):
    module, checkpoints = make(tmp_path)
    checkpoints.save(10)
    checkpoints.save(20)
    index = tmp_path / "model.ckpt-20.index"
    content = index.read_bytes()
    index.unlink()
    _, again = make(tmp_path)
    assert again.latest().endswith("-10")
    again.save(15)
    # The user may put it back.
    index.write_bytes(content)
    _, again = make(tmp_path)
    assert again.latest().endswith("-20")
    # `checkpoint` is not needed, and what it names need not be there.
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "x-3"')
    _, again = make(tmp_path)
    assert again.latest().endswith("-20")
    (tmp_path / "checkpoint").unlink()
    _, again = make(tmp_path)
    assert again.latest().endswith("-20")
    again.save(30)
    found = sorted(f for f in os.listdir(tmp_path) if f.endswith(".index"))
    assert found == ["model.ckpt-20.index", "model.ckpt-30.index"]


def test_leftovers_of_an_unfinished_save_are_removed(tmp_path):
    _, checkpoints = make(tmp_path)
    checkpoints.save(10)
    for step in (10, 20):  # the first one became whole
        (tmp_path / f"model.ckpt-{step}_temp").mkdir()
        (tmp_path / f"model.ckpt-{step}_temp" / "part-0").write_text("x")
    (tmp_path / "model.ckpt-20.data-00000-of-00001").write_text("half")
    (tmp_path / "model.ckpt-40.memory").mkdir()
    (tmp_path / "model.ckpt-40.memory" / "rows-00000000").write_text("x")
    (tmp_path / ".checkpoint.tmp-123").write_text("half")
    (tmp_path / "notes.txt").write_text("mine")
    make(tmp_path)
    found = set(os.listdir(tmp_path))
    assert not {f for f in found if "ckpt-" in f and "-10" not in f}
    assert {"model.ckpt-10.index", "notes.txt"} <= found
    assert not found & {".checkpoint.tmp-123", "model.ckpt-10_temp"}


def test_an_old_one_that_was_being_removed_goes(tmp_path):
    """Half of it stayed where no save followed."""
    _, checkpoints = make(tmp_path, max_save=3)
    for step in (10, 20, 30):
        checkpoints.save(step)
        (tmp_path / f"model.ckpt-{step}.memory").mkdir(exist_ok=True)
    (tmp_path / "model.ckpt-10.index").unlink()
    make(tmp_path)
    found = {name.partition(".ckpt-")[2][:2] for name in os.listdir(tmp_path)}
    assert found - {""} == {"20", "30"}


def test_a_save_leaves_the_rows_of_the_next_one_alone(tmp_path):
    """A faster process writes them while the chief still ends this save."""
    _, checkpoints = make(tmp_path, max_save=1)
    checkpoints.save(9)
    for step in (5, 20):
        (tmp_path / f"model.ckpt-{step}.memory").mkdir()
        (tmp_path / f"model.ckpt-{step}.memory" / "rows-0-2").write_text("x")
    checkpoints.save(10)
    found = {f.partition(".memory")[0] for f in os.listdir(tmp_path)}
    assert "model.ckpt-20" in found and "model.ckpt-5" not in found
    assert not [f for f in found if "ckpt-9" in f]


def test_old_ones_rotate_over_restarts(tmp_path):
    for step in (1, 2, 3):
        _, checkpoints = make(tmp_path, max_save=2)
        checkpoints.save(step)
    kept = sorted(f for f in os.listdir(tmp_path) if f.endswith(".index"))
    assert kept == ["model.ckpt-2.index", "model.ckpt-3.index"]


def test_a_damaged_or_other_checkpoint_is_refused(tmp_path):
    _, checkpoints = make(tmp_path)
    path = checkpoints.save(10)
    _, other = make(tmp_path, size=7)
    with pytest.raises(UserError, match="does not fit this run"):
        other.restore(path)
    data = tmp_path / "model.ckpt-10.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[100] ^= 255
    data.write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        checkpoints.restore(path)


def test_a_process_that_is_not_chief_writes_nothing(tmp_path):
    checkpoints = RunCheckpoints(
        str(tmp_path), {"model": tf.Module()}, 2, chief=False
    )
    assert checkpoints.save(5) is None
    assert os.listdir(tmp_path) == []


def test_an_error_of_a_background_save_comes_at_the_next_boundary(tmp_path):
    module = tf.Module()
    module.w = tf.Variable(tf.zeros([5000]))
    beside = RunCheckpoints(
        str(tmp_path), {"model": module}, 2, in_background=True
    )
    beside.save(10)
    beside.check()
    beside.wait()
    with disk_of(4096):
        beside.save(20)
        beside.close()  # until it has failed
    assert beside.latest().endswith("ckpt-10")
    failing = RunCheckpoints(
        str(tmp_path), {"model": module}, 2, in_background=True
    )
    began = threading.Event()
    source_write = failing._write

    def write(*how):
        began.wait(60)
        source_write(*how)

    failing._write = write
    with disk_of(4096):
        failing.save(30)
        failing.check()  # still at work: training goes on
        began.set()
        with pytest.raises(UserError, match="ckpt-10 is intact"):
            failing.save(40)  # at most one in flight
    assert not [f for f in os.listdir(tmp_path) if "ckpt-30" in f]


@pytest.mark.parametrize("name", ["pretrain", "classifier", "squad", "race"])
def test_tpu_scripts_print_their_commands(name):
    folders = ("DATA_DIR", "MODEL_DIR", "INIT_CHECKPOINT", "SPIECE")
    variables = {
        v: f"gs://bucket/{v}" for v in (*folders, "TRAIN_FILE", "PREDICT_FILE")
    }
    done = subprocess.run(
        ["bash", f"scripts/tpu/{name}.sh", "--seed=3"],
        cwd=ROOT,
        env=os.environ | variables | {"DRY_RUN": "1", "CREATE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tpu-vm create xlnet" in done.stdout
    assert f"run_{name}.py" in done.stdout and "--seed=3" in done.stdout
    missing = subprocess.run(
        ["bash", f"scripts/tpu/{name}.sh"],
        cwd=ROOT,
        env=os.environ | {"DRY_RUN": "1"},
        capture_output=True,
        text=True,
    )
    assert missing.returncode == 1 and "error: set" in missing.stderr
