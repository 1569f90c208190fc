"""Work beside the training: one at a time, and its errors come out once."""

import threading

import pytest

from training.checkpointing.background import Background


class Broken(Exception):
    """What the work raises."""


def fail():
    raise Broken


def started(work):
    """A `Background` with work that can end when the event is set."""
    end = threading.Event()

    def wait():
        assert end.wait(60)
        work()

    background = Background()
    background.start(wait)
    return background, end


def test_work_runs_beside_and_is_waited_for():
    done = []
    background, end = started(lambda: done.append(threading.get_ident()))
    assert background.busy and not done
    background.check()  # nothing has failed so far
    end.set()
    background.wait()
    assert done and done[0] != threading.get_ident()
    assert not background.busy
    background.wait()  # of nothing
    background.start(lambda: done.append(2))
    background.wait()
    assert done[1] == 2
    assert background.close()


def test_two_at_a_time_are_a_mistake_of_the_program():
    background, end = started(lambda: None)
    with pytest.raises(RuntimeError, match="two at a time"):
        background.start(lambda: None)
    end.set()
    background.wait()
    assert background.close()


def test_an_error_comes_out_of_check_and_of_wait_but_not_of_the_next():
    background = Background()
    background.start(fail)
    background._running.exception(60)  # until it has failed
    with pytest.raises(Broken):
        background.check()
    assert background.busy
    with pytest.raises(Broken):
        background.wait()
    background.check()
    background.wait()
    assert not background.busy and background.close()


def test_closing_raises_nothing_and_gives_up_in_time():
    background, end = started(fail)
    assert not background.close(0.01)
    assert background.busy  # it can be waited for again
    end.set()
    assert background.close(60)
    assert not background.busy
    with pytest.raises(RuntimeError):
        background.start(fail)
