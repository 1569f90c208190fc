"""The level of TensorFlow's libraries, by a library that stands in."""

import ctypes
import sys
import types

import pytest

from common.process import library_lines


@pytest.fixture
def levels(monkeypatch):
    """What the library is told."""
    told = []

    class Library:
        def __init__(self, path):
            assert path == "/toy/libtensorflow_framework.so.2"
            name = library_lines._SET_LEVEL
            setattr(self, name, lambda level: told.append(level.value))

    package = types.SimpleNamespace(__file__="/toy/__init__.py")
    monkeypatch.setitem(sys.modules, "tensorflow", package)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    return told


def test_the_level_is_the_variables_within_0_to_3(levels, monkeypatch):
    for value in ("1", "7", "-2"):
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", value)
        assert library_lines.silence()
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
    assert library_lines.silence()
    assert levels == [1, 3, 0, 3]


def test_another_release_keeps_its_lines(levels, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "much")
    assert not library_lines.silence()
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
    monkeypatch.setattr(library_lines, "_SET_LEVEL", "dlopen")
    monkeypatch.setattr(ctypes, "CDLL", lambda path: object())
    assert not library_lines.silence()
    assert levels == []
