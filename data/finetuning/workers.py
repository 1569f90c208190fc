"""Runs a function over chunks in worker processes that die with their parent.

Workers are spawned, import what the function's module imports (no TensorFlow)
and build their tokenizer once.
"""

import concurrent.futures
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Seconds between a worker's looks at its parent.
WATCH_SECONDS = 1.0

_STATE: Any = None


def map_chunks(
    function: Callable[[Any, Any], Any],
    chunks: Iterable[Any],
    make_state: Callable[..., Any],
    state_arguments: tuple,
    num_workers: int,
) -> Iterator[Any]:
    """`function(state, chunk)` of every chunk, in order.

    Args:
      function: a module-level function.
      chunks: picklable inputs.
      make_state: builds what each process needs once (e.g. a tokenizer).
      state_arguments: of `make_state`, picklable.
      num_workers: 1 runs in this process; 0 = one per core.
    """
    workers = num_workers or os.cpu_count() or 1
    chunks = list(chunks)
    if workers == 1 or len(chunks) <= 1:
        state = make_state(*state_arguments)
        for chunk in chunks:
            yield function(state, chunk)
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        min(workers, len(chunks)),
        context,
        _start,
        (make_state, state_arguments, os.getpid()),
    ) as pool:
        yield from pool.map(_call, [(function, chunk) for chunk in chunks])


def _start(make_state: Callable, arguments: tuple, parent: int) -> None:
    global _STATE
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    _STATE = make_state(*arguments)


def _watch(parent: int) -> None:
    """Ends this worker when its parent is gone (kill -9 tells nobody)."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os._exit(1)


def _call(job: tuple[Callable, Any]) -> Any:
    function, chunk = job
    return function(_STATE, chunk)


def split_chunks(items: list, size: int) -> list[list]:
    """`items` in runs of `size`."""
    return [items[i : i + size] for i in range(0, len(items), size)]
