"""Signals, time and other processes: when a training stops."""

import signal
import threading

import pytest

from common.process import clock, hangup
from training import stop as stop_lib
from training.stop import StopRequest


@pytest.fixture(autouse=True)
def handlers():
    """Signals that are counted; the handlers of before come back."""
    before = {number: signal.getsignal(number) for number in stop_lib.SIGNALS}
    seen = []
    for number in stop_lib.SIGNALS:
        signal.signal(number, lambda number, frame: seen.append(number))
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def let_go(monkeypatch):
    """What would be let go; this process's own output stays."""
    found = []
    monkeypatch.setattr(hangup, "terminals", lambda: [7, 9])
    monkeypatch.setattr(hangup, "let_go", found.append)
    return found


@pytest.mark.parametrize("number", stop_lib.SIGNALS, ids=lambda n: n.name)
def test_a_signal_is_noted_and_a_second_one_acts_as_usual(
    number, handlers, let_go
):
    request = StopRequest(0.0, None)
    with request:
        assert request.reason() is None
        signal.raise_signal(number)
        assert request.reason() == number.name and handlers == []
        assert request.reason() == number.name  # it stays
        signal.raise_signal(number)
        assert handlers == [number]
    # Only a closed terminal is let go, and once.
    assert let_go == ([[7, 9]] if number == signal.SIGHUP else [])
    signal.raise_signal(number)  # what was before is there again
    assert handlers == [number, number]


def test_a_signal_that_nothing_answered_is_passed_on(handlers):
    """It came in the last evaluation, and the next training began."""
    with StopRequest(0.0, None) as request:
        signal.raise_signal(signal.SIGTERM)
    assert handlers == []
    request.pass_on()
    assert handlers == [signal.SIGTERM]
    with StopRequest(0.0, None) as request:
        request.pass_on()
        signal.raise_signal(signal.SIGTERM)
        assert request.reason() == "SIGTERM"
    request.pass_on()
    assert handlers == [signal.SIGTERM]


def test_under_nohup_a_closed_terminal_is_nothing(let_go):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    request = StopRequest(0.0, None)
    with request:
        signal.raise_signal(signal.SIGHUP)
        assert request.reason() is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)
        assert request.reason() == "SIGTERM"
    assert let_go == []
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_another_thread_leaves_signals_as_they_are(handlers):
    reasons = []

    def work():
        with StopRequest(0.0, None) as request:
            reasons.append(request.reason())

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert reasons == [None]
    assert signal.getsignal(signal.SIGTERM) == before
    signal.raise_signal(signal.SIGTERM)
    assert handlers == [signal.SIGTERM]


def test_hours_end_and_zero_is_never(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stop_lib.time, "monotonic", lambda: now[0])
    limited, endless = StopRequest(0.5, None), StopRequest(0.0, None)
    now[0] += 1799
    assert limited.reason() is None
    now[0] += 1
    assert limited.reason() == "--max_hours is over"
    assert endless.reason() is None
    with limited:
        signal.raise_signal(signal.SIGINT)
        assert limited.reason() == "SIGINT"  # what was asked for is said


def test_the_trainings_of_a_command_share_its_hours(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(stop_lib.time, "monotonic", lambda: now[0])
    with clock.command():
        first = StopRequest(0.5, None)
        now[0] += 1000
        second = StopRequest(0.5, None)
        assert second.reason() is None
        now[0] += 800
        assert first.reason() == second.reason() == "--max_hours is over"
    assert StopRequest(0.5, None).reason() is None


class Meeting:
    """The sum of this process's value and another's."""

    def __init__(self, other):
        self.other, self.said = other, []

    def total(self, value):
        self.said.append(value)
        return value + self.other


def test_all_processes_stop_when_one_does():
    quiet, told = Meeting(0.0), Meeting(1.0)
    assert StopRequest(0.0, quiet).reason() is None
    assert quiet.said == [0.0]
    request = StopRequest(0.0, told)
    assert request.reason() == "another process was told to stop"
    with request:
        signal.raise_signal(signal.SIGTERM)
        assert request.reason() == "SIGTERM"
    assert told.said == [0.0, 1.0]
    alone = Meeting(0.0)
    with StopRequest(0.0, alone) as request:
        signal.raise_signal(signal.SIGTERM)
        assert request.reason() == "SIGTERM" and alone.said == [1.0]


@pytest.mark.parametrize("mine", [False, True])
@pytest.mark.parametrize("other", [0.0, 1.0])
def test_an_agreement_is_the_same_everywhere(mine, other):
    assert StopRequest(0.0, None).agree(mine) == mine
    found = StopRequest(0.0, Meeting(other)).agree(mine)
    assert found == (mine or other > 0)
