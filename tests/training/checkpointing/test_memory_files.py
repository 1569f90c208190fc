"""Memory in files by range of rows: written by several, read by others."""

import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from training.checkpointing import memory_files
from training.checkpointing.memory_files import HostRows

BFLOAT16 = tf.bfloat16.as_numpy_dtype
LAYERS, SLOTS, WIDTH, ROWS = 3, 4, 5, 12


def rows_of(numbers, dtype=np.float32):
    """What every row holds is a function of its number."""
    numbers = np.asarray(numbers)
    layers = [
        np.random.default_rng(layer)
        .normal(size=(ROWS, SLOTS, WIDTH))
        .astype(dtype)[numbers]
        for layer in range(LAYERS)
    ]
    return HostRows(numbers, layers, (numbers % (SLOTS + 1)).astype(np.int32))


def save(path, shares, dtype=np.float32):
    folder = memory_files.folder_of(str(path))
    for numbers in shares:
        memory_files.write(folder, rows_of(numbers, dtype))
    assert memory_files.write_index(folder, ROWS, threading.Event())
    return folder


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16], ids=str)
def test_other_processes_read_the_ranges_that_they_need(tmp_path, dtype):
    # Two processes with forward and backward rows.
    shares = [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
    folder = save(tmp_path / "a", shares, dtype)
    assert sorted(os.listdir(folder)) == [
        "index.json",
        "rows-00000000-00000003",
        "rows-00000003-00000006",
        "rows-00000006-00000009",
        "rows-00000009-00000012",
    ]
    saved = memory_files.open_memory(str(tmp_path / "a"))
    assert (saved.rows, saved.shape) == (ROWS, (LAYERS, SLOTS, WIDTH))
    for numbers in ([0, 6], [2, 3, 8, 9], list(range(ROWS))):
        found, wanted = saved.read(np.array(numbers)), rows_of(numbers, dtype)
        assert found.layers[0].dtype == dtype
        for a, b in zip(found.layers, wanted.layers, strict=True):
            assert a.tobytes() == b.tobytes()
        np.testing.assert_array_equal(found.length, wanted.length)


def test_there_is_no_index_before_all_rows_are_there(tmp_path):
    folder, stop = str(tmp_path / "a.memory"), threading.Event()
    memory_files.write(folder, rows_of([0, 1, 2, 3]))
    late = threading.Timer(
        0.2, lambda: memory_files.write(folder, rows_of(range(4, ROWS)))
    )
    late.start()
    assert memory_files.write_index(folder, ROWS, stop)
    late.join()
    other = str(tmp_path / "b.memory")
    memory_files.write(other, rows_of([0, 1, 2, 3]))
    stop.set()
    assert not memory_files.write_index(other, ROWS, stop)
    with pytest.raises(UserError, match="has no memory"):
        memory_files.open_memory(str(tmp_path / "b"))


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def turn_a_bit(path):
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def forget_a_row(path):
    index = json.loads(path.read_text())
    index["files"][0]["crc32"].pop()
    path.write_text(json.dumps(index))


@pytest.mark.parametrize(
    "name, damage",
    [
        ("rows-00000004-00000012", cut),
        ("rows-00000004-00000012", turn_a_bit),
        ("rows-00000004-00000012", os.remove),
        ("index.json", forget_a_row),
    ],
)
def test_damage_is_one_line_that_names_the_file(tmp_path, name, damage):
    folder = save(tmp_path / "a", [range(4), range(4, ROWS)])
    damage(tmp_path / "a.memory" / name)
    with pytest.raises(UserError, match="--reset_memory") as e:
        memory_files.open_memory(str(tmp_path / "a")).read(np.arange(ROWS))
    assert os.path.join(folder, name) in str(e.value)
    assert "\n" not in str(e.value)


def test_memory_of_another_step_is_refused(tmp_path):
    """It has the same shape: the run would go on with older rows."""
    folder = save(tmp_path / "model.ckpt-2", [range(ROWS)])
    for name in ("model.ckpt-3", "kept"):
        shutil.copytree(folder, memory_files.folder_of(str(tmp_path / name)))
    with pytest.raises(UserError, match="it is of step 2.*--reset_memory"):
        memory_files.open_memory(str(tmp_path / "model.ckpt-3"))
    # A checkpoint under another name, and an index of an earlier version.
    assert memory_files.open_memory(str(tmp_path / "kept")).rows == ROWS
    index = pathlib.Path(folder, "index.json")
    value = json.loads(index.read_text())
    del value["step"]
    copy = tmp_path / "model.ckpt-3.memory" / "index.json"
    copy.write_text(json.dumps(value))
    assert memory_files.open_memory(str(tmp_path / "model.ckpt-3")).rows == ROWS


def test_memory_inside_of_an_old_checkpoint_is_read(tmp_path):
    wanted = rows_of(range(ROWS), BFLOAT16)
    state = tf.Module()
    state.layers = [tf.Variable(layer) for layer in wanted.layers]
    state.length = tf.Variable(wanted.length)
    path = tf.train.Checkpoint(memory=state).write(str(tmp_path / "old"))
    saved = memory_files.open_memory(path)
    assert (saved.rows, saved.shape) == (ROWS, (LAYERS, SLOTS, WIDTH))
    found, wanted = saved.read(np.array([3, 7])), rows_of([3, 7], BFLOAT16)
    for a, b in zip(found.layers, wanted.layers, strict=True):
        assert a.tobytes() == b.tobytes()
    assert found.length.tolist() == [3, 2]
    none = tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "no"))
    assert memory_files.open_memory(none) is None
