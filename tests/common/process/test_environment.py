"""What TensorFlow reads from the environment when it is loaded."""

import importlib
import os
import platform
import subprocess
import sys
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
    monkeypatch.setattr(common, "ENVIRONMENT", common.ENVIRONMENT)
    ours = common._environment()
    first, *others = ours
    monkeypatch.setenv(first, "of the user")
    for name in others:
        monkeypatch.delenv(name, raising=False)
    importlib.reload(common)
    assert os.environ[first] == "of the user"
    assert common.ENVIRONMENT == {name: ours[name] for name in others}
    assert common.ENVIRONMENT.items() <= os.environ.items()


def test_the_users_environment_is_without_ours(monkeypatch):
    monkeypatch.setattr(common, "ENVIRONMENT", {"OURS": "1"})
    monkeypatch.setenv("OURS", "1")
    monkeypatch.setenv("THEIRS", "2")
    found = common.users_environment()
    assert "OURS" not in found and found["THEIRS"] == "2"


@pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64")
    or os.environ.get(ONEDNN) == "0",
    reason="oneDNN is off",
)
def test_tensorflow_has_it_on():
    from tensorflow.python.framework import test_util

    assert test_util.IsMklEnabled()


@pytest.mark.parametrize(
    "package", ["data", "flags", "modeling", "serving", "studies", "training"]
)
def test_every_package_sets_it_before_its_modules_load_tensorflow(package):
    code = (
        f"import os, sys, {package}; assert 'tensorflow' not in sys.modules;"
        f"print(os.environ['TF_USE_LEGACY_KERAS'])"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in common._environment()
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=os.path.dirname(os.path.dirname(common.__file__)),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "1\n", done.stderr
