"""Worker processes that end with their parent.

After `kill -9` of the parent, the workers of a process pool live on and keep
writing. Here each worker watches its parent and exits when it is gone. Ctrl-C is
the parent's, who ends what the workers do.
"""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from common.errors import UserError
from common.process import cores

_WATCH_SECONDS = 0.2
_SPAWN = multiprocessing.get_context("spawn")
_state: dict[str, Any] = {}


def _watch(parent: int, stop: Any) -> None:
    interrupted = False
    while os.getppid() == parent:
        if stop and not interrupted and stop.is_set() and "item" in _state:
            interrupted = True
            os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _start(parent: int, make: Callable, arguments: tuple, stop: Any) -> None:
    if stop:  # what is open is removed, as after Ctrl-C
        signal.signal(signal.SIGUSR1, signal.default_int_handler)
    threading.Thread(target=_watch, args=(parent, stop), daemon=True).start()
    _state["call"], _state["stop"] = make(*arguments), stop


def _call(item):
    if _state["stop"] and _state["stop"].is_set():
        raise KeyboardInterrupt
    _state["item"] = item
    try:
        return _state["call"](item)
    finally:
        del _state["item"]


@contextlib.contextmanager
def without_signals(*numbers: int) -> Iterator[None]:
    """Processes that start in the block never get them; this one, behind it."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def _tracked() -> contextlib.AbstractContextManager:
    """Around what starts Python's tracker of semaphores.

    It ignores the other signals that a group gets; a closed terminal would end
    it, and each semaphore would then be a stack trace.
    """
    return without_signals(signal.SIGHUP)


def open_pool(
    num_workers: int, make: Callable, arguments: tuple = (), stop: Any = None
) -> concurrent.futures.ProcessPoolExecutor:
    """Fresh processes that end with this one, each after `make(*arguments)`.

    All are picklable. Once `stop`, an event of `multiprocessing`, is set, their
    tasks end with KeyboardInterrupt.
    """
    with _tracked():
        return concurrent.futures.ProcessPoolExecutor(
            num_workers,
            mp_context=_SPAWN,
            initializer=_start,
            initargs=(os.getpid(), make, arguments, stop),
        )


def run(
    make: Callable,
    arguments: tuple,
    items: Iterable[Any],
    num_workers: int,
    ordered: bool = False,
    flag: str = "num_workers",
) -> Iterator[Any]:
    """Calls `make(*arguments)(item)` for every item.

    Args:
      make: picklable as arguments and items are; called once in every worker.
      num_workers: 1 runs in this process; 0 = one per core.
      ordered: give the results in the order of the items, not as they come.
      flag: of the command, that gives `num_workers`.

    Raises:
      UserError: from a worker, or because a worker was killed.
    """
    items = list(items)
    num_workers = min(num_workers or len(cores.usable()), len(items))
    if num_workers <= 1:
        call = make(*arguments) if items else None
        yield from (call(item) for item in items)
        return
    with _tracked():
        stop = _SPAWN.Event()
    with open_pool(num_workers, make, arguments, stop) as pool:
        try:
            with without_signals(signal.SIGINT):
                tasks = [pool.submit(_call, item) for item in items]
            wait = iter if ordered else concurrent.futures.as_completed
            for task in wait(tasks):
                yield task.result()
        except concurrent.futures.process.BrokenProcessPool as e:
            raise UserError(
                "a worker process was killed (out of memory?); run the same "
                f"command again to resume, with a smaller --{flag} if it "
                "happens again"
            ) from e
        except (KeyboardInterrupt, GeneratorExit):
            stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def with_state(
    function: Callable, make_state: Callable, *arguments
) -> Callable:
    """For `run`: `function(state, item)`, the state made once per worker."""
    return functools.partial(function, make_state(*arguments))


def split_chunks(items: list, size: int) -> list[list]:
    """`items` in runs of `size`."""
    return [items[i : i + size] for i in range(0, len(items), size)]
