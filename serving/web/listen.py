"""uvicorn with bounds: slow clients are cut off, the end comes in time."""

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable

import fastapi
import uvicorn

from common import hangup
from serving.options import ServerOptions
from serving.web.connections import Connections, Listener, Rates
from serving.web.metrics import RateLimit
from serving.web.protocol import BoundedProtocol, Bounds
from serving.web.versions import spare_the_collector

_LOG = logging.getLogger("serving")
BACKLOG = 2048
_OTHER_FILES = 128  # that a server opens beside its connections
_SWITCH_SECONDS = 0.001


def run(
    application: fastapi.FastAPI,
    listener: socket.socket,
    options: ServerOptions,
    at_start: Callable[[], Awaitable] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; then the process ends in `timeout_s`.

    SIGTERM is a wish and no failure: the exit code is 0. A terminal that closes
    (SIGHUP) wishes the same.

    `at_start` runs beside the first requests.

    A model that still runs when the application has ended would be waited for
    by TensorFlow; the process ends without it.
    """
    # Threads that run the model hold Python's lock no longer than that.
    sys.setswitchinterval(_SWITCH_SECONDS)
    spare_the_collector()
    for name in ("serving", "uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(RateLimit())
    server = make_server(application, options, at_start)
    # uvicorn raises the signal again at its end. Whoever dies of it leaves the
    # helper's semaphores to Python's tracker, and two lines of its own.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: None)
        if not hangup.is_ignored():
            terminals = hangup.terminals()

            def closed(number, frame) -> None:
                hangup.let_go(terminals)
                server.handle_exit(signal.SIGTERM, frame)

            signal.signal(signal.SIGHUP, closed)
    server.run(sockets=[listener])
    if application.state.versions.working:
        _leave()


def make_server(
    application: fastapi.FastAPI,
    options: ServerOptions,
    at_start: Callable[[], Awaitable] | None = None,
) -> "_Server":
    """A server that does not run yet: see `run`."""
    metrics = application.state.metrics
    connections = Connections(
        _raise_open_files(options.max_connections),
        options.max_connections_per_address,
        metrics.connections_refused.inc,
    )
    rates = Rates(options.max_requests_per_address, metrics.too_often.inc)
    bounds = Bounds(options.read_timeout_s, connections, rates)
    config = uvicorn.Config(
        application,
        http=type("Protocol", (BoundedProtocol,), {"bounds": bounds}),
        ws="none",
        log_level="warning",
        backlog=BACKLOG,
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        ssl_certfile=options.ssl_certfile or None,
        ssl_keyfile=options.ssl_keyfile or None,
        timeout_keep_alive=max(1, round(options.read_timeout_s)),
        timeout_graceful_shutdown=0.7 * options.timeout_s,
    )
    return _Server(
        config,
        application.state.versions,
        options.timeout_s,
        connections,
        at_start,
    )


class _Server(uvicorn.Server):
    """Tells the application that the end comes, and sees to it that it does."""

    def __init__(self, config, state, seconds: float, connections, at_start):
        super().__init__(config)
        self._connections = connections
        self._state = state
        self._seconds = seconds
        self._at_start = at_start
        self._task: asyncio.Task | None = None

    async def startup(self, sockets=None) -> None:
        """Begins to listen."""
        bounded = [Listener(s, self._connections) for s in sockets or ()]
        await super().startup(bounded)
        if self._at_start is not None:
            self._task = asyncio.ensure_future(self._at_start())

    def handle_exit(self, sig, frame) -> None:
        """SIGTERM or SIGINT."""
        if not self._state.draining:
            self._state.drain()
            timer = threading.Timer(0.9 * self._seconds, _leave)
            timer.daemon = True
            timer.start()
        super().handle_exit(sig, frame)


def _raise_open_files(wanted: int) -> int:
    """Lets the process open `wanted` connections; how many it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < need:
            _LOG.warning(
                "the system lets this process open %d files: "
                "--max_connections is %d here",
                soft,
                soft - _OTHER_FILES,
            )
            return max(soft - _OTHER_FILES, 1)
    return wanted


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
