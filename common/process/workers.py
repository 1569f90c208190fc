"""Worker processes that end with their parent.

After `kill -9` of the parent, the workers of a process pool live on and keep
writing. Here each worker watches its parent and exits when it is gone.
"""

import concurrent.futures
import functools
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from common.errors import UserError

_WATCH_SECONDS = 0.2
_state = {}


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


def _start(parent: int, make: Callable, arguments: tuple) -> None:
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    _state["call"] = make(*arguments)


def _call(item):
    return _state["call"](item)


def open_pool(
    num_workers: int, make: Callable, arguments: tuple = ()
) -> concurrent.futures.ProcessPoolExecutor:
    """Fresh processes that end with this one, each after `make(*arguments)`.

    All are picklable.
    """
    return concurrent.futures.ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(os.getpid(), make, arguments),
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
    num_workers = min(num_workers or os.cpu_count() or 1, len(items))
    if num_workers <= 1:
        call = make(*arguments) if items else None
        yield from (call(item) for item in items)
        return
    with open_pool(num_workers, make, arguments) as pool:
        try:
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
