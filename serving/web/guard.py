"""What surrounds every call: clients that leave, errors, the end of service."""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable, Collection

from starlette.requests import ClientDisconnect

from serving.web import wire
from serving.web.metrics import Metrics

_LOG = logging.getLogger("serving")
_CLOSE = (b"connection", b"close")
_MISTAKES = range(400, 499)  # 499: the client is gone


class Brake:
    """Who sends mistakes waits for the answer; the others have the time.

    The first `burst` mistakes of all clients together are answered at once,
    later ones at `rate` a second, and none later than after `most` seconds.

    Args:
      rate: answers a second.
      burst: answers that need not wait.
      most: seconds.
      clock: gives seconds.
    """

    def __init__(
        self,
        rate: float = 50.0,
        burst: int = 20,
        most: float = 0.5,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._step = 1.0 / rate
        self._lead = burst * self._step
        self._most = most
        self._clock = clock
        self._turn = -float("inf")

    def seconds(self) -> float:
        """How long the next answer has to wait; it takes its turn."""
        now = self._clock()
        turn = max(self._turn, now - self._lead) + self._step
        self._turn = min(turn, now + self._most)
        return max(self._turn - now, 0.0)


class Guard:
    """ASGI middleware.

    A client that leaves is counted and costs no trace; whatever else happens
    is one line outside and a trace in the log. Mistakes are answered at a
    bounded rate. When the server ends, answers carry `Connection: close`.

    Args:
      app: the application.
      metrics: counts.
      draining: whether the server is ending.
      hosts: names that `Host` may give; empty = any. A page elsewhere whose
        name was pointed at this machine gives its own.
    """

    def __init__(
        self,
        app,
        metrics: Metrics,
        draining: Callable[[], bool],
        hosts: Collection[str] = (),
    ):
        self._hosts = frozenset(host.lower() for host in hosts)
        self._app = app
        self._metrics = metrics
        self._draining = draining
        self._brake = Brake()

    async def __call__(self, scope, receive, send):
        """One call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def guarded_send(message):
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = message.get("headers", [])
                if message["status"] in _MISTAKES and not self._draining():
                    await asyncio.sleep(self._brake.seconds())
                if self._draining() and _CLOSE not in headers:
                    message = message | {"headers": [*headers, _CLOSE]}
            await send(message)

        path = scope["path"]
        problem = self._problem_of(scope["method"], scope["headers"])
        if problem:
            await _send_error(guarded_send, path, 403, problem)
            return
        if scope["method"] == "HEAD":  # who sends it leaves the body out
            scope = scope | {"method": "GET"}
        try:
            await self._app(scope, receive, guarded_send)
        except ClientDisconnect:
            self._metrics.disconnects.inc()
            if not started:  # nobody reads it, but a call must be answered
                await _send_error(guarded_send, path, 499, "the client left")
        except asyncio.CancelledError:  # the server's time is over
            if started:
                raise
            await _send_error(guarded_send, path, 503, "the server is ending")
        except Exception as e:
            _LOG.error("request failed", exc_info=e)
            if started:
                raise
            await _send_error(guarded_send, path, 500, "internal error")

    def _problem_of(self, method: str, headers) -> str:
        """Why a browser's request for another site is refused, or ""."""
        found = {k: v.decode("latin-1") for k, v in headers}
        host = found.get(b"host", "").lower()
        if self._hosts and not self._is_known(host_name(host)):
            return f"this server is not {host[:80]!r}: see --allowed_hosts"
        origin = found.get(b"origin")
        if origin is not None and origin.lower().partition("://")[2] != host:
            return "pages of other sites may not ask this server"
        # A link to the page may stand anywhere; a question may not.
        foreign = found.get(b"sec-fetch-site") == "cross-site"
        if foreign and method != "GET":
            return "pages of other sites may not ask this server"
        return ""

    def _is_known(self, name: str) -> bool:
        """A page elsewhere can point a name at this machine, no address."""
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host


async def _send_error(send, path: str, status: int, message: str) -> None:
    body = wire.error(message, status, path)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        _CLOSE,
    ]
    start = {"type": "http.response.start", "status": status}
    await send(start | {"headers": headers})
    await send({"type": "http.response.body", "body": body})
