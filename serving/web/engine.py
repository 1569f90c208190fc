"""Requests -> runs of the model: bounds, lanes, slices, the rows of an answer."""

import asyncio
import functools
import time

import numpy as np
import tensorflow as tf

from common.errors import UserError
from serving.options import ServerOptions
from serving.saved_model import SavedModel, Stop
from serving.web.batching import Batcher, Limits, Overloaded
from serving.web.cost import Budget, free_bytes, model_size
from serving.web.metrics import Metrics
from serving.web.requests import Request

_QUICK_ROWS = 4  # rows of full length that one may ask for in the quick lane
_NEIGHBOUR_SECONDS = 2.0
_REST = 3.0  # times a slice, which the quick lane then has for itself
_LONGEST_REST = 0.2  # seconds; a slice begun without neighbours may be long
_SHORT_RUN = 0.02  # seconds of the other lane's run that are waited for
_LOOK_SECONDS = 0.001
_MOST_LOOKS = 100


class Refused(Exception):
    """An answer other than 200: a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = " ".join(message.split())


class Engine:
    """A model with its two lanes; costly requests do not hold up others."""

    def __init__(
        self, model: SavedModel, options: ServerOptions, metrics: Metrics
    ):
        self.model = model
        self.draining = False
        self._options = options
        self._metrics = metrics
        self._budget = Budget(
            model.description,
            model_size(model.description, model.variable_shapes),
            options,
            free_bytes(),
        )
        self._lanes: dict[str, Batcher] = {}

    def start(self) -> None:
        """Starts the lanes; needs a running event loop."""
        options = self._options
        quick = Limits(
            options.max_batch_size,
            self._budget.max_tokens,
            wait_ms=options.max_wait_ms,
            queue=options.max_queue,
        )
        costly = quick._replace(
            slice_tokens=self._slice_tokens, rest=self._rest
        )
        for name, limits, other in (
            ("quick", quick, "costly"),
            ("costly", costly, "quick"),
        ):
            limits = limits._replace(turn=functools.partial(self._turn, other))
            lane = Batcher(self._run, limits, self._metrics.rows.observe, name)
            lane.start()
            self._lanes[name] = lane

    async def stop(self) -> None:
        """Stops the lanes; what runs or waits is cancelled."""
        for lane in self._lanes.values():
            await lane.stop()

    @property
    def working(self) -> bool:
        """Whether a thread still runs the model."""
        return any(x.worker.busy_seconds for x in self._lanes.values())

    @property
    def ended(self) -> bool:
        """Whether no thread is left, after `stop`."""
        return not any(x.worker.alive for x in self._lanes.values())

    @property
    def waiting(self) -> int:
        """Rows in the queues."""
        return sum(lane.waiting for lane in self._lanes.values())

    def drain(self) -> None:
        """Says that the server is ending."""
        self.draining = True

    def check_alive(self) -> None:
        """Raises Refused when the process had better be started again."""
        for name, lane in self._lanes.items():
            if not lane.worker.alive:
                raise Refused(503, f"the {name} thread has ended")
            busy = lane.worker.busy_seconds
            if busy > 2 * self._options.timeout_s:
                raise Refused(503, f"the {name} run has taken {busy:.0f} s")

    def check_ready(self) -> None:
        """Raises Refused when requests had better go elsewhere."""
        self.check_alive()
        if self.draining:
            raise Refused(503, "the server is ending")
        quick = self._lanes["quick"]
        if quick.waiting >= self._options.max_queue:
            raise Refused(503, "too many requests are waiting")
        busy = quick.worker.busy_seconds
        if busy > self._options.timeout_s:
            raise Refused(503, f"the present run has taken {busy:.0f} s")

    async def answer(self, request: Request, alone: bool) -> list[dict]:
        """Output name -> array or value, of every row.

        Args:
          request: checked.
          alone: neighbours must not pad the outputs.

        Raises:
          Refused: a bound, the deadline, or the model.
        """
        try:
            work = self._budget.check(request.signature, request.rows)
            dear = work.weight * len(request.rows) > self._quick_weight
            lane = self._lanes["costly" if dear else "quick"]
            alone = (alone and self._pads(request.signature)) or bool(
                self._shared(request.signature)
            )
            async with asyncio.timeout(self._options.timeout_s):
                return await lane.submit(
                    request.signature,
                    request.rows,
                    work.tokens,
                    work.weight,
                    alone,
                )
        except Overloaded as e:
            raise Refused(
                503, "too many requests are waiting; try later"
            ) from e
        except TimeoutError as e:
            raise Refused(504, "the answer took too long; send less") from e
        except UserError as e:
            raise Refused(400, str(e)) from e
        except (tf.errors.InvalidArgumentError, ValueError, TypeError) as e:
            raise Refused(
                400, "the model refused these values: check ids and shapes"
            ) from e

    def _slice_tokens(self) -> int:
        """How much of a costly request runs at once.

        Both lanes share the machine's cores, so what runs at once is kept
        small while quick requests come.
        """
        if self._has_neighbours:
            return self._budget.row_tokens
        return self._budget.max_tokens

    def _rest(self, seconds: float, waited: float) -> float:
        """How long the costly lane pauses after a slice.

        While quick requests come it takes a quarter of the time, more only
        where slices are long. Once half of a costly request's time is over it
        no longer waits for them.

        Args:
          seconds: that the slice took.
          waited: seconds since the oldest costly request came.
        """
        if not self._has_neighbours or waited > self._options.timeout_s / 2:
            return 0.0
        return min(_REST * seconds, _LONGEST_REST)

    async def _turn(self, other: str) -> None:
        """Waits for the end of the other lane's run, if it is a short one.

        A run uses all cores: two at once take longer than one after the other.
        """
        worker = self._lanes[other].worker
        for _ in range(_MOST_LOOKS):
            if not 0.0 < worker.busy_seconds < _SHORT_RUN:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    @property
    def _has_neighbours(self) -> bool:
        """Whether quick requests came of late."""
        idle = time.monotonic() - self._lanes["quick"].last_used
        return idle <= _NEIGHBOUR_SECONDS

    @property
    def _quick_weight(self) -> int:
        return min(
            _QUICK_ROWS * self._budget.row_tokens, self._budget.max_tokens
        )

    def _shared(self, signature: str) -> list[str]:
        """Inputs that are one value for all rows of a run."""
        inputs = self.model.description["signatures"][signature]["inputs"]
        return [name for name, spec in inputs.items() if not spec["shape"]]

    def _pads(self, signature: str) -> bool:
        """Whether texts decide the shapes of outputs."""
        spec = self.model.description["signatures"][signature]
        return any(
            value["dtype"] == "string" for value in spec["inputs"].values()
        ) and any(None in v["shape"][1:] for v in spec["outputs"].values())

    def _run(self, signature: str, rows: list[dict], stop: Stop) -> list[dict]:
        """Runs in a lane's thread."""
        shared = self._shared(signature)
        batch = {
            name: rows[0][name] if name in shared else _column(rows, name)
            for name in rows[0]
        }
        outputs = {
            name: np.asarray(value)
            for name, value in self.model(batch, signature, stop).items()
        }
        return [
            {name: value[i] for name, value in outputs.items()}
            for i in range(len(rows))
        ]


def _column(rows: list[dict], name: str):
    """The rows of an input: texts as lists, numbers as one array."""
    values = [row[name] for row in rows]
    return np.stack(values) if isinstance(values[0], np.ndarray) else values
