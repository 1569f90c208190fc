"""Copies of what a checkpoint holds: the same keys, values of that moment."""

import threading

import numpy as np
import tensorflow as tf
import tf_keras

from training.checkpointing.checkpoints import RunCheckpoints
from training.checkpointing.host_copy import host_copy


def test_a_background_save_holds_what_was_there_when_it_began(
    tmp_path, monkeypatch
):
    model = tf_keras.Sequential([tf_keras.layers.Dense(3, name="variables")])
    model.build([None, 2])
    shared = tf.Variable(1.0)
    model.extra = {"a": shared, "b": [shared, tf.Variable([2, 3])]}
    one = RunCheckpoints(str(tmp_path / "now"), {"model": model}, 2)
    beside = RunCheckpoints(
        str(tmp_path / "beside"), {"model": model}, 2, in_background=True
    )
    changed, write = threading.Event(), beside._write

    def write_later(*arguments):
        assert changed.wait(60)
        write(*arguments)

    monkeypatch.setattr(beside, "_write", write_later)
    path = one.save(7)
    other = beside.save(7)
    for variable in [*model.variables, shared]:
        variable.assign(variable + 1)
    changed.set()
    beside.wait()
    readers = [tf.train.load_checkpoint(p) for p in (path, other)]
    shapes = [r.get_variable_to_shape_map() for r in readers]
    assert shapes[0] == shapes[1] and len(shapes[0]) > 4
    for name in set(shapes[0]) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}:
        a, b = (np.asarray(r.get_tensor(name)) for r in readers)
        assert a.tobytes() == b.tobytes() and a.dtype == b.dtype, name
    beside.restore(beside.latest())
    assert shared.numpy() == 1.0


def test_a_copy_keeps_values_types_names_and_what_is_shared():
    shared = tf.Variable(3, dtype=tf.int64)
    module = tf.Module()
    module.half = tf.Variable([1.5, 2.5], dtype=tf.bfloat16)
    module.text = tf.Variable("name", dtype=tf.string)
    module.list = [shared, {"again": shared}]
    copied = host_copy(tf.train.Checkpoint(model=module, step=shared))
    view = tf.train.TrackableView(copied)

    def child(node, *names):
        for name in names:
            node = view.children(node)[name]
        return node

    assert set(view.children(copied)) == {"model", "step"}
    half = child(copied, "model", "half")
    assert half.dtype == tf.bfloat16 and not half.trainable
    assert half.device.endswith("CPU:0")
    text = child(copied, "model", "text")
    assert text.numpy() == b"name"
    step = child(copied, "step")
    assert child(copied, "model", "list", "0") is step
    assert child(copied, "model", "list", "1", "again") is step
    # What follows changes the originals alone.
    shared.assign(9)
    module.half.assign([0.0, 0.0])
    assert step.numpy() == 3
    np.testing.assert_array_equal(half.numpy(), [1.5, 2.5])


def test_objects_that_hold_each_other_are_copied_once():
    one, other = tf.Module(), tf.Module()
    one.other, other.one = other, one
    other.value = tf.Variable(4.0)
    copied = host_copy(tf.train.Checkpoint(one=one))
    view = tf.train.TrackableView(copied)
    first = view.children(copied)["one"]
    second = view.children(first)["other"]
    assert view.children(second)["one"] is first
    assert view.children(second)["value"].numpy() == 4.0
