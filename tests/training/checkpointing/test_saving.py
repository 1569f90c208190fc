"""Saves that fail: what their line says, and what is removed."""

import errno
import os

import pytest
import tensorflow as tf

from training.checkpointing import saving

PLACE = "{{function_node __wrapped__SaveV2_device_/job:localhost/CPU:0}} "


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_the_cause_is_said_whatever_the_length_of_the_path(number):
    message = f"{PLACE}{'/long' * 60}.tempstate7; {os.strerror(number)}"
    error = tf.errors.ResourceExhaustedError(None, None, message)
    line = str(saving.failed("/x/model.ckpt-3", "/x/model.ckpt-2", error))
    assert line == (
        f"saving /x/model.ckpt-3 failed ({os.strerror(number)}); "
        "/x/model.ckpt-2 is intact; free some space and start the same "
        "command again"
    )


def test_memory_is_no_disk():
    error = tf.errors.ResourceExhaustedError(None, None, "OOM of [9,7]")
    assert saving.of_disk(error) == ""
    assert "(OOM of [9,7])" in str(saving.failed("/x/a", None, error))


def test_only_its_own_parts_are_removed(tmp_path):
    names = ["m-3.index", "m-3_temp", "m-3.memory", "m-31.index", "m-2.index"]
    for name in names:
        (tmp_path / name).touch()
    error = OSError(errno.ENOSPC, "full")
    saving.failed(str(tmp_path / "m-3"), None, error, remove=False)
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    saving.failed(str(tmp_path / "m-3"), None, error)
    assert sorted(os.listdir(tmp_path)) == ["m-2.index", "m-31.index"]
