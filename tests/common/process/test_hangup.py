"""SIGHUP under nohup, and output to a terminal that is gone."""

import os
import pty
import signal

import pytest

from common.process import hangup


@pytest.fixture
def handler():
    before = signal.getsignal(signal.SIGHUP)
    yield lambda new: signal.signal(signal.SIGHUP, new)
    signal.signal(signal.SIGHUP, before)


def test_only_an_ignored_signal_counts(handler):
    handler(signal.SIG_IGN)
    assert hangup.is_ignored()
    handler(signal.SIG_DFL)
    assert not hangup.is_ignored()
    handler(lambda *_: None)
    assert not hangup.is_ignored()


def test_what_is_written_to_a_closed_terminal_goes_nowhere():
    one, other = pty.openpty()
    os.close(one)
    try:
        with pytest.raises(OSError):
            os.write(other, b"a line\n")
        hangup.let_go([other])
        assert os.write(other, b"a line\n") == 7
        assert not os.isatty(other)
    finally:
        os.close(other)


def test_which_outputs_are_a_terminal(monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda number: number == 2)
    assert hangup.terminals() == [2]
