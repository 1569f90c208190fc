"""Worker processes that end with their parent (L1).

After `kill -9` of the parent, the workers of a process pool live on and keep
writing. Here each worker watches its parent and exits when it is gone.
"""

import concurrent.futures
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator

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


def run(
    make: Callable, arguments: tuple, items: list[int], num_workers: int
) -> Iterator:
    """Calls `make(*arguments)(item)` for every item, in any order.

    Args:
      make: picklable; called once in every worker.
      arguments: of `make`, picklable.
      items: what the made function is called with.
      num_workers: 1 runs in this process.

    Yields:
      The results as they come.

    Raises:
      UserError: from a worker, or because a worker was killed.
    """
    num_workers = min(num_workers, len(items))
    if num_workers <= 1:
        call = make(*arguments) if items else None
        yield from (call(item) for item in items)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        num_workers,
        mp_context=context,
        initializer=_start,
        initargs=(os.getpid(), make, arguments),
    ) as pool:
        try:
            tasks = [pool.submit(_call, item) for item in items]
            for task in concurrent.futures.as_completed(tasks):
                yield task.result()
        except concurrent.futures.process.BrokenProcessPool as e:
            raise UserError(
                "a worker process was killed (out of memory?); run the same "
                "command again to go on, with a smaller --num_workers or "
                "--block_megabytes if it happens again"
            ) from e
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
