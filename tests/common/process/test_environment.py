"""What TensorFlow reads from the environment when it is loaded."""

import importlib
import os
import platform
import types

import pytest

import common

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"


@pytest.mark.parametrize(
    "machine, wanted",
    [("x86_64", "1"), ("AMD64", "1"), ("aarch64", None), ("arm64", None)],
)
def test_onednn_is_on_where_it_was_measured(monkeypatch, machine, wanted):
    named = types.SimpleNamespace(machine=machine)
    monkeypatch.setattr(os, "uname", lambda: named, raising=False)
    assert common._environment().get(ONEDNN) == wanted
    # Windows has no `uname`.
    monkeypatch.delattr(os, "uname")
    monkeypatch.setenv("PROCESSOR_ARCHITECTURE", machine)
    assert common._environment().get(ONEDNN) == wanted


def test_a_value_of_the_user_stays(monkeypatch):
    for name in common.ENVIRONMENT:
        monkeypatch.setenv(name, "of the user")
    importlib.reload(common)
    for name in common.ENVIRONMENT:
        assert os.environ[name] == "of the user"
        monkeypatch.delenv(name)
    importlib.reload(common)
    for name, value in common.ENVIRONMENT.items():
        assert os.environ[name] == value


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64")
    or os.environ.get(ONEDNN) == "0",
    reason="oneDNN is off",
)
def test_tensorflow_has_it_on():
    from tensorflow.python.framework import test_util

    assert test_util.IsMklEnabled()
