"""Signals that end a command let it put things in order."""

import signal
import threading

import pytest

from common.process import ending, hangup

BOTH = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.signal(number, signal.SIG_DFL) for number in BOTH}
    # A shell ignores it for what it starts in the background.
    interrupt = signal.default_int_handler
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number, status", [(BOTH[0], 143), (BOTH[1], 129)])
def test_the_first_one_interrupts_and_the_second_kills(
    monkeypatch, number, status
):
    closed = []
    monkeypatch.setattr(hangup, "terminals", lambda: [2])
    monkeypatch.setattr(hangup, "let_go", closed.append)
    ending.watch()
    with pytest.raises(KeyboardInterrupt) as info:
        signal.raise_signal(number)
    assert info.value.status == status
    assert signal.getsignal(number) == signal.SIG_DFL
    assert closed == ([[2]] if number == signal.SIGHUP else [])


def test_handlers_of_others_and_nohup_stay():
    def own(*_):
        pass

    signal.signal(signal.SIGTERM, own)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending.watch()
    assert [signal.getsignal(n) for n in BOTH] == [own, signal.SIG_IGN]


def test_signals_act_at_once_while_a_library_holds_the_interpreter():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending.watch()
    numbers = (signal.SIGINT, *BOTH)
    before = [signal.getsignal(n) for n in numbers]
    with pytest.raises(RuntimeError), ending.at_once():
        assert [signal.getsignal(n) for n in numbers] == [
            signal.SIG_DFL,
            signal.SIG_DFL,
            signal.SIG_IGN,
        ]
        raise RuntimeError
    assert [signal.getsignal(n) for n in numbers] == before


def test_another_thread_changes_nothing():
    for call in (ending.watch, lambda: ending.at_once().__enter__()):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert all(signal.getsignal(n) == signal.SIG_DFL for n in BOTH)
