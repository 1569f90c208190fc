"""A command's start is one moment; without a command it is now."""

import pytest

from common.process import clock


def test_a_command_begins_once(monkeypatch):
    now = [5.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    with pytest.raises(KeyError), clock.command():
        now[0] = 9.0
        assert clock.began() == 5.0
        raise KeyError
    assert clock.began() == 9.0
