"""Reasons to stop between two host loops: a signal, or the time."""

import signal
import time

import tensorflow as tf

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Notes SIGTERM and Ctrl-C; a second one acts as usual.

    Use as a context manager around training.

    Args:
      max_hours: also stop after so many hours; 0 = off.
      strategy: with several processes all must stop at the same step, so they
        agree by a sum.
      processes: how many there are.
    """

    def __init__(self, max_hours: float, strategy, processes: int):
        self._deadline = time.monotonic() + 3600 * max_hours
        self._limited = max_hours > 0
        self._strategy = strategy
        self._processes = processes
        self._signal = None
        self._old = {}
        self._sum = None

    def __enter__(self):
        for number in SIGNALS:
            try:
                self._old[number] = signal.signal(number, self._note)
            except ValueError:
                pass  # not the main thread: signals stay as they are
        return self

    def __exit__(self, *unused):
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        del frame
        self._signal = signal.Signals(number).name
        signal.signal(number, self._old[number])

    def reason(self) -> str | None:
        """Why to stop now, the same answer in every process; else None."""
        mine = self._signal
        if mine is None and self._limited:
            if time.monotonic() >= self._deadline:
                mine = "--max_hours is over"
        if self._processes == 1:
            return mine
        return self._agree(mine)

    def _agree(self, mine: str | None) -> str | None:
        if self._sum is None:

            @tf.function
            def add(flag):
                def one(x):
                    context = tf.distribute.get_replica_context()
                    # A copy on the replica's device, where the sum belongs.
                    x = tf.identity(x)
                    return context.all_reduce(tf.distribute.ReduceOp.SUM, x)

                total = self._strategy.run(one, args=(flag,))
                return self._strategy.experimental_local_results(total)[0]

            self._sum = add
        total = self._sum(tf.constant(1.0 if mine else 0.0))
        if float(total) == 0:
            return None
        return mine or "another process was told to stop"
