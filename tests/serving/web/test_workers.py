"""The thread that runs a model, and the process that reads large bodies."""

import asyncio
import concurrent.futures
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool

import pytest

from serving.web import workers
from serving.web.workers import Helper, Overloaded, Worker


def test_work_beside_a_block_ends_with_it():
    events = []

    async def work():
        try:
            events.append("begins")
            await asyncio.Event().wait()
        finally:
            events.append("ends")

    async def run():
        async with workers.beside(work()):
            await asyncio.sleep(0)
            events.append("block")
        with pytest.raises(ZeroDivisionError):
            async with workers.beside(work()):
                await asyncio.sleep(0)
                events.append(1 // 0)

    asyncio.run(run())
    assert events == ["begins", "block", "ends", "begins", "ends"]


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_worker_runs_one_call_after_another():
    gate, names = threading.Event(), []

    def call(value):
        names.append(threading.current_thread().name)
        gate.wait(20)
        return 6 // value

    async def run():
        worker = Worker("quick")
        assert worker.busy_seconds == 0.0
        first, second = (
            asyncio.ensure_future(worker.run(call, n)) for n in (3, 0)
        )
        await until(lambda: names)
        assert worker.busy_seconds > 0.0 and len(names) == 1
        gate.set()
        assert await first == 2
        with pytest.raises(ZeroDivisionError):
            await second
        assert worker.busy_seconds == 0.0  # after an error, too
        assert await worker.run(call, 2) == 3
        worker.stop()

    asyncio.run(run())
    assert names == ["quick_0"] * 3


def test_a_worker_that_is_stopped_leaves_out_what_waits():
    gate, calls = threading.Event(), []

    def call(value):
        calls.append(value)
        gate.wait(20)
        return value

    async def run():
        worker = Worker("costly")
        first, second = (
            asyncio.ensure_future(worker.run(call, n)) for n in (1, 2)
        )
        await until(lambda: calls)
        worker.stop()  # and does not wait for the first
        assert not first.done()
        gate.set()
        assert await first == 1
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(run())
    assert calls == [1]


@pytest.fixture
def pools(monkeypatch):
    """Pools that the helper has opened: threads instead of processes."""
    found = []

    def open_pool(count, make, arguments):
        assert (count, make) == (1, os.nice) and arguments[0] > 0
        found.append(concurrent.futures.ThreadPoolExecutor(count))
        return found[-1]

    monkeypatch.setattr(workers.workers, "open_pool", open_pool)
    yield found
    for pool in found:
        pool.shutdown()


def test_the_helper_starts_with_its_first_work_and_gives_memory_back(
    pools, monkeypatch
):
    trims = []
    monkeypatch.setattr(workers.heap, "trim", lambda: trims.append(1))

    async def run():
        helper = Helper()
        helper.close()  # there is nothing to end
        assert not pools
        assert await helper.run(divmod, 17, 5) == (3, 2)
        with pytest.raises(ZeroDivisionError):
            await helper.run(divmod, 17, 0)
        assert len(pools) == 1 and len(trims) == 2
        helper.close()
        assert await helper.run(divmod, 9, 4) == (2, 1)
        helper.close()

    asyncio.run(run())
    assert len(pools) == 2
    for pool in pools:
        with pytest.raises(RuntimeError):
            pool.submit(divmod, 1, 1)


@pytest.mark.long
def test_what_ends_the_server_does_not_reach_its_helper(capfd):
    """Ctrl-C printed the helper's stack trace, and cost its requests theirs."""

    async def run():
        helper = Helper()
        number = await helper.run(os.getpid)
        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(number, end)
            assert await helper.run(os.getpid) == number
        helper.close()

    asyncio.run(run())
    assert "Traceback" not in capfd.readouterr().err


def test_the_helper_refuses_when_too_much_waits(pools, monkeypatch):
    monkeypatch.setattr(workers, "_MOST_WAITING", 2)
    gate = threading.Event()

    async def run():
        helper = Helper()
        held = [asyncio.ensure_future(helper.run(gate.wait, 20)) for _ in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await helper.run(divmod, 1, 1)
        gate.set()
        assert await asyncio.gather(*held) == [True, True]
        assert await helper.run(divmod, 5, 2) == (2, 1)
        helper.close()

    asyncio.run(run())


def test_a_helper_that_was_killed_is_started_again(pools):
    def killed():
        raise BrokenProcessPool

    async def run():
        helper = Helper()
        for _ in range(3):
            with pytest.raises(Overloaded):
                await helper.run(killed)
        assert len(pools) == 3
        assert await helper.run(divmod, 5, 2) == (2, 1)
        assert await helper.run(divmod, 7, 2) == (3, 1)
        helper.close()

    asyncio.run(run())
    assert len(pools) == 4
