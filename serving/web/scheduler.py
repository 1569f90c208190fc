"""What a server takes, who waits for what and for how long: the contract.

A request passes these bounds from above to below. Where a column says "nobody"
it is decided at once. `--` marks the flags of `ServerOptions`.

| bound | who waits, for what | how much or how long | at the bound |
|---|---|---|---|
| connections (`addresses`) | nobody: who comes takes the place of the one that has waited longest for its client | `--max_connections`, `--max_connections_per_address` | closed |
| head (`transport.protocol`) | the server, for its bytes | `--read_timeout_s` | closed |
| | nobody | bytes, lines, URL, chunks, forms of HTTP | 400, 414, 431, 505, closed |
| rate (`addresses`) | nobody | `--max_requests_per_address` | 429, closed |
| door (`transport.guard`, `.access`) | nobody | Host and Origin; a key | 403, 401, closed |
| body | the server, for its bytes | `--read_timeout_s`; `--max_body_bytes`; none that is packed | 408, 413, 415, closed |
| answer | the client, for all that follows down to "writing" | `--timeout_s` | 504; a run that nobody waits for any more is stopped |
| reading | a body above `LARGE_BODY`, for the helper (`workers`) | 64 pieces of work | 503 |
| values (`forms`, `cost`) | nobody | `--max_chars`, `--max_instances`, `--max_tokens`, `--max_cost` | 400 |
| lane (`lanes`) | a row, for rows that are due before it | `--max_queue` rows of its lane, more of one request | 503 |
| | the first row of an idle lane, for company | `--max_wait_ms` | it runs |
| | a lane, for a run of the other lane | 0.02 s of that run's life; 100 ms in all | both run |
| | the costly lane, after a slice beside quick requests | 3 times the slice, 0.2 s; not once its oldest request has waited half of `--timeout_s` | it runs |
| | the costly lane, for a request; then it gives freed memory back | 1 s | it goes on waiting |
| writing | an answer above `LARGE_ANSWER`, for the helper | 64 pieces of work | 503 |
| mistakes (`addresses`) | an answer 4xx after 20 of them, for its turn, 50 a second | 0.5 s | it is sent |
| client | the server, for a client that reads | `--read_timeout_s` | closed |
| the end: SIGTERM (`transport.listen`) | the process, for who has connected and not asked | 0.2 s | closed |
| | the process, for requests that have begun | 0.7 `--timeout_s`; at 0.9 it ends whatever runs | 503 |

One `Scheduler` holds all these bounds and counts; all others ask it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import fastapi
import prometheus_client
from starlette.requests import ClientDisconnect

from common.errors import UserError
from serving.options import ServerOptions
from serving.web.addresses import Connections, Turns, owner
from serving.web.forms import wire
from serving.web.lanes import Lanes, Runs
from serving.web.metrics import Metrics
from serving.web.workers import Helper, Overloaded

LARGE_BODY = 16_384  # bytes
LARGE_ANSWER = 2_000  # values


class Refused(Exception):
    """An answer other than 200: a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = " ".join(message.split())


class Scheduler:
    """All bounds and counts of a server."""

    def __init__(self, options: ServerOptions):
        self.options = options
        self.metrics = Metrics()
        self.connections = Connections(
            options.max_connections,
            options.max_connections_per_address,
            self.metrics.connections_refused.inc,
        )
        # turns of requests by address, and of all answers 4xx
        self.rates = Turns(options.max_requests_per_address)
        self.mistakes = Turns(50.0, burst=20, most=0.5)
        self.draining = False
        self._lanes: list[Lanes] = []  # of each version; the last is served
        self._helper = Helper()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """What was begun in the block is ended with it."""
        try:
            yield
        finally:
            for lanes in list(self._lanes):
                await lanes.stop()
            self._helper.close()

    async def warm_up(self) -> None:
        """Starts the helper: its first large request waits less."""
        await self._helper.run(wire.error, "")

    def open_lanes(self, runs: Runs) -> Lanes:
        """Those of a version, which is served from now on."""
        lanes = Lanes(runs, self.options, self.metrics.rows.observe)
        self._lanes.append(lanes)
        return lanes

    async def close_lanes(self, lanes: Lanes) -> None:
        """Its version has ended."""
        await lanes.stop()
        self._lanes.remove(lanes)

    @property
    def working(self) -> bool:
        """Whether a thread still runs a model."""
        return any(lanes.working for lanes in self._lanes)

    def counts(self) -> prometheus_client.CollectorRegistry:
        """All that is counted."""
        self.metrics.waiting.set(sum(lanes.waiting for lanes in self._lanes))
        return self.metrics.registry

    def trouble(self) -> str:
        """Why the process had better be started again, or ""."""
        return self._lanes[-1].stuck()

    def refusal(self) -> str:
        """Why requests had better go elsewhere, or ""."""
        ending = "the server is ending" if self.draining else ""
        return self.trouble() or ending or self._lanes[-1].crowded()

    def early(self, address: str) -> float:
        """0: an address may ask now; else in so many seconds."""
        seconds = self.rates.seconds(owner(address))
        if seconds:
            self.metrics.too_often.inc()
        return seconds

    # --- One request ---------------------------------------------------------

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a request that runs the model, by its status, and its time."""
        start = time.perf_counter()
        status = 500
        try:
            yield
            status = 200
        except Refused as e:
            status = e.status
            raise
        except ClientDisconnect:
            status = 499
            raise
        finally:
            self.metrics.requests.labels(str(status)).inc()
            self.metrics.seconds.observe(time.perf_counter() - start)

    async def body(self, http: fastapi.Request) -> bytes:
        """The whole body; Refused with 408, 413 or 415."""
        packed = http.headers.get("content-encoding", "identity")
        if packed.lower() != "identity":
            raise Refused(
                415,
                "wanted a body without Content-Encoding, found "
                f"{packed[:40]!r}; send plain JSON",
            )
        limit = self.options.max_body_bytes
        message = f"the body is larger than {limit} bytes"
        length = http.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > limit:
            raise Refused(413, message)
        body = bytearray()
        try:
            async with asyncio.timeout(self.options.read_timeout_s):
                async for chunk in http.stream():
                    body += chunk
                    if len(body) > limit:
                        raise Refused(413, message)
        except TimeoutError as e:
            raise Refused(408, "the body came too slowly") from e
        return bytes(body)

    async def in_time(self, http: fastapi.Request, answer: Awaitable):
        """What `answer` gives; Refused with 400, 503 or 504.

        Raises ClientDisconnect: the client has left before.
        """
        task = asyncio.ensure_future(self._bounded(answer))
        gone = asyncio.ensure_future(_left(http))
        try:
            await asyncio.wait(
                (task, gone), return_when=asyncio.FIRST_COMPLETED
            )
            if not task.done():
                raise ClientDisconnect
            return task.result()
        finally:
            task.cancel()
            gone.cancel()

    async def _bounded(self, answer: Awaitable):
        try:
            async with asyncio.timeout(self.options.timeout_s):
                return await answer
        except Overloaded as e:
            raise Refused(
                503, "too many requests are waiting; try later"
            ) from e
        except TimeoutError as e:
            raise Refused(504, "the answer took too long; send less") from e
        except UserError as e:
            raise Refused(400, str(e)) from e

    async def do(self, large: bool, function: Callable, *arguments):
        """`function(*arguments)`, by the helper where it is much work."""
        if large:
            return await self._helper.run(function, *arguments)
        return function(*arguments)


async def _left(http: fastapi.Request) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
