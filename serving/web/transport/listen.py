"""uvicorn with bounds: who has no place is sent away, the end comes in time."""

import asyncio
import functools
import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import fastapi
import uvicorn

from common.process import hangup
from serving.web.addresses import Connections
from serving.web.metrics import RateLimit
from serving.web.scheduler import Scheduler
from serving.web.transport.protocol import BoundedProtocol
from serving.web.versions import spare_the_collector

_LOG = logging.getLogger("serving")
BACKLOG = 2048
_OTHER_FILES = 128  # that a server opens beside its connections
_SWITCH_SECONDS = 0.001
_EACH_TURN = 32  # connections looked at in one turn of the event loop
# For who has connected when the end comes: a listener that is closed resets them.
_LAST_SECONDS = 0.2
_LOOK_SECONDS = 0.002


def run(
    application: fastapi.FastAPI,
    listener: socket.socket,
    at_start: Callable[[], Awaitable] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT; then the process ends in `timeout_s`.

    SIGTERM is a wish and no failure: the exit code is 0. A terminal that closes
    (SIGHUP) wishes the same. Signals that come before the event loop runs end
    it as soon as it does.

    `at_start` runs beside the first requests.

    A model that still runs when the application has ended would be waited for
    by TensorFlow; the process ends without it.
    """
    # Threads that run the model hold Python's lock no longer than that.
    sys.setswitchinterval(_SWITCH_SECONDS)
    for name in ("serving", "uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(RateLimit())
    server = make_server(application, at_start)
    # uvicorn raises the signal again at its end. Whoever dies of it leaves the
    # helper's semaphores to Python's tracker, and two lines of its own.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, server.handle_exit)
        if not hangup.is_ignored():
            terminals = hangup.terminals()

            def closed(number, frame) -> None:
                hangup.let_go(terminals)
                server.handle_exit(signal.SIGTERM, frame)

            signal.signal(signal.SIGHUP, closed)
    spare_the_collector()  # takes a while, in which a signal may come
    server.run(sockets=[listener])
    if server.scheduler.working:
        _leave()


def end_while_loading() -> None:
    """SIGTERM and SIGHUP before `run` end the process with exit code 0, too."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: sys.exit(0))


def make_server(
    application: fastapi.FastAPI,
    at_start: Callable[[], Awaitable] | None = None,
) -> "_Server":
    """A server that does not run yet: see `run`."""
    scheduler = application.state.scheduler
    options = scheduler.options
    scheduler.connections.most = _raise_open_files(options.max_connections)
    config = uvicorn.Config(
        application,
        http=type("Protocol", (BoundedProtocol,), {"scheduler": scheduler}),
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
    return _Server(config, scheduler, at_start)


class _Server(uvicorn.Server):
    """Tells the scheduler that the end comes, and sees to it that it does."""

    def __init__(self, config, scheduler: Scheduler, at_start):
        super().__init__(config)
        self.scheduler = scheduler
        self._at_start = at_start
        self._task: asyncio.Task | None = None
        self._listeners: list[Listener] = []

    async def startup(self, sockets=None) -> None:
        """Begins to listen."""
        connections = self.scheduler.connections
        self._listeners = [Listener(s, connections) for s in sockets or ()]
        await super().startup(self._listeners)
        if self._at_start is not None:
            self._task = asyncio.ensure_future(self._at_start())

    async def shutdown(self, sockets=None) -> None:
        """Ends; who has connected by now is let in and read before."""
        end = time.monotonic() + _LAST_SECONDS
        while self._newcomers() and time.monotonic() < end:
            await asyncio.sleep(_LOOK_SECONDS)
        await super().shutdown(sockets)

    def _newcomers(self) -> bool:
        """Whether a connection waits to be let in, or has asked nothing yet."""
        poll = select.poll()
        for listener in self._listeners:
            poll.register(listener, select.POLLIN)
        connections = self.server_state.connections
        return bool(poll.poll(0)) or any(c.cycle is None for c in connections)

    def handle_exit(self, sig, frame) -> None:
        """SIGTERM or SIGINT."""
        if not self.scheduler.draining:
            self.scheduler.draining = True
            seconds = 0.9 * self.scheduler.options.timeout_s
            timer = threading.Timer(seconds, _leave)
            timer.daemon = True
            timer.start()
        super().handle_exit(sig, frame)


class _Accepted(socket.socket):
    """A connection that says when it is closed, however it comes to that."""

    on_close = None

    def close(self) -> None:
        call, self.on_close = self.on_close, None
        if call is not None:
            call()
        super().close()


class Listener(socket.socket):
    """A listening socket whose `accept` keeps to the bounds.

    A connection that its client has closed again, or that is one too many,
    costs two system calls. An event loop calls `accept` until it would block: that is after at most
    `_EACH_TURN` connections, so that others have their turn between them.
    """

    def __init__(self, plain: socket.socket, connections: Connections):
        family, kind, number = plain.family, plain.type, plain.proto
        super().__init__(family, kind, number, plain.detach())
        self._connections = connections
        self._left = _EACH_TURN

    def accept(self) -> tuple[socket.socket, tuple]:
        """The next connection that may stay.

        Raises BlockingIOError: there is none, or it is the turn of others.
        """
        while self._left > 0:
            self._left -= 1
            try:
                plain, address = super().accept()
            except OSError:
                self._left = _EACH_TURN
                raise
            if _is_gone(plain) or not self._connections.enter(address[0]):
                plain.close()
                continue
            family, kind, number = plain.family, plain.type, plain.proto
            accepted = _Accepted(family, kind, number, plain.detach())
            accepted.on_close = functools.partial(
                self._connections.leave, address[0]
            )
            return accepted, address
        self._left = _EACH_TURN
        raise BlockingIOError


def _is_gone(connection: socket.socket) -> bool:
    """Whether the client has closed it without a word."""
    connection.setblocking(False)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _raise_open_files(wanted: int) -> int:
    """Lets the process open `wanted` connections; how many it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = wanted + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < need:
        soft = need if hard == resource.RLIM_INFINITY else min(need, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < need:
            # Few as they may be, a part of them is for connections.
            most = min(wanted, max(soft - _OTHER_FILES, soft // 4, 1))
            if most < wanted:
                _LOG.warning(
                    "the system lets this process open %d files: "
                    "--max_connections is %d here",
                    soft,
                    most,
                )
            return most
    return wanted


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
