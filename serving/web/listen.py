"""uvicorn with bounds: slow clients are cut off, the end comes in time."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable

import fastapi
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from common import hangup
from serving.options import ServerOptions
from serving.web import wire
from serving.web.metrics import RateLimit
from serving.web.versions import spare_the_collector

BACKLOG = 2048
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
    config = uvicorn.Config(
        application,
        http=_bounded_protocol(options.read_timeout_s),
        log_level="warning",
        backlog=BACKLOG,
        server_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        ssl_certfile=options.ssl_certfile or None,
        ssl_keyfile=options.ssl_keyfile or None,
        timeout_keep_alive=max(1, round(options.read_timeout_s)),
        timeout_graceful_shutdown=0.7 * options.timeout_s,
    )
    server = _Server(
        config, application.state.versions, options.timeout_s, at_start
    )
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


class _Server(uvicorn.Server):
    """Tells the application that the end comes, and sees to it that it does."""

    def __init__(self, config, state, seconds: float, at_start):
        super().__init__(config)
        self._state = state
        self._seconds = seconds
        self._at_start = at_start
        self._task: asyncio.Task | None = None

    async def startup(self, sockets=None) -> None:
        """Begins to listen."""
        await super().startup(sockets)
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


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _bounded_protocol(seconds: float) -> type[H11Protocol]:
    """A protocol that gives a client `seconds` for headers and for reading."""

    class Bounded(H11Protocol):
        """`seconds` from the first byte of a request to its last header."""

        _timer: asyncio.TimerHandle | None = None
        _reading: asyncio.TimerHandle | None = None

        def connection_made(self, transport) -> None:
            super().connection_made(transport)
            self._arm()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            idle = self.cycle is None or self.cycle.response_complete
            if not idle:
                self._disarm()
            elif self._timer is None:
                self._arm()

        def connection_lost(self, exc) -> None:
            self._disarm()
            self.resume_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            if self._reading is not None:
                self._reading.cancel()
                self._reading = None
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self.transport.close()  # in the middle of a body
                return
            body = wire.error(msg)
            head = (
                "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json"
                f"\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

        def _arm(self) -> None:
            self._timer = self.loop.call_later(seconds, self.transport.close)

        def _disarm(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Bounded
