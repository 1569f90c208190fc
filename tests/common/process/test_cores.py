"""The cores of a process are those that it may use."""

import os

import pytest

from common.process import cores, workers


@pytest.fixture
def few(monkeypatch):
    """Three cores of a machine that has more."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {7, 2, 5})


def test_what_taskset_leaves(few):
    assert cores.usable() == [2, 5, 7]


def test_a_system_that_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores.usable() == list(range(os.cpu_count() or 1))


def test_a_worker_for_each_of_them(few, monkeypatch):
    """There was one for every core of the machine."""
    asked = []

    def open_pool(count, *_):
        asked.append(count)
        raise InterruptedError

    monkeypatch.setattr(workers, "open_pool", open_pool)
    with pytest.raises(InterruptedError):
        list(workers.run(list, (), range(99), 0))
    assert asked == [3]
