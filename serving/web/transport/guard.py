"""What surrounds every call: clients that leave, errors, the end of service."""

import asyncio
import ipaddress
import logging
from collections.abc import Collection

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from serving.web.forms import wire
from serving.web.scheduler import Scheduler
from serving.web.transport.access import OPEN_PATHS, Keys

_LOG = logging.getLogger("serving")
_CLOSE = (b"connection", b"close")
_MISTAKES = range(400, 499)  # 499: the client is gone
_FOREIGN = "pages of other sites may not send requests to this server"


def refusal(status: int, message: str, path: str, headers=None) -> Response:
    """An error in the form that a path has."""
    body = wire.error(message, status, path)
    return Response(body, status, headers, "application/json")


class Guard:
    """ASGI middleware.

    A client that leaves is counted and costs no trace; whatever else happens
    is one line outside and a trace in the log. Mistakes are answered at a
    bounded rate. When the server ends, answers carry `Connection: close`.

    Args:
      scheduler: turns of mistakes, counts, whether the end has come.
      hosts: names that `Host` may give; empty = any. A page elsewhere whose
        name was pointed at this machine gives its own.
      keys: one of them is needed, but for the page and the probes, which tell
        nothing of the model; None = all may ask.
    """

    def __init__(
        self,
        app,
        scheduler: Scheduler,
        hosts: Collection[str] = (),
        keys: Keys | None = None,
    ):
        self._hosts = frozenset(host.lower() for host in hosts)
        self._app = app
        self._keys = keys
        self._scheduler = scheduler

    async def __call__(self, scope, receive, send):
        """One call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        scheduler = self._scheduler

        async def guarded_send(message):
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = message.get("headers", [])
                if scheduler.draining:
                    if _CLOSE not in headers:
                        message = message | {"headers": [*headers, _CLOSE]}
                elif message["status"] in _MISTAKES:
                    await asyncio.sleep(scheduler.mistakes.seconds())
            await send(message)

        async def refuse(status: int, message: str, **more: str) -> None:
            headers = {"Connection": "close"} | more  # the body is not read
            answer = refusal(status, message, scope["path"], headers)
            await answer(scope, receive, guarded_send)

        problem = self._problem_of(scope["method"], scope["headers"])
        if problem:
            await refuse(403, problem)
            return
        if self._keys is not None and scope["path"] not in OPEN_PATHS:
            name, problem, wanted = self._keys.owner_of(scope["headers"])
            if problem:
                scheduler.metrics.unauthorized.inc()
                await refuse(401, problem, **{"WWW-Authenticate": wanted})
                return
            scheduler.metrics.keys.labels(name).inc()
        if scope["method"] == "HEAD":  # who sends it leaves the body out
            scope = scope | {"method": "GET"}
        try:
            await self._app(scope, receive, guarded_send)
        except ClientDisconnect:
            scheduler.metrics.disconnects.inc()
            if not started:  # nobody reads it, but a call must be answered
                await refuse(499, "the client left")
        except asyncio.CancelledError:  # the server's time is over
            if started:
                raise
            await refuse(503, "the server is ending")
        except Exception as e:
            _LOG.error("request failed", exc_info=e)
            if started:
                raise
            await refuse(500, "internal error")

    def _problem_of(self, method: str, headers) -> str:
        """Why a browser's request for another site is refused, or ""."""
        values = {k: v.decode("latin-1") for k, v in headers}
        host = values.get(b"host", "").lower()
        # Probes of HTTP/1.0 may leave it out; browsers do not.
        checked = self._hosts and b"host" in values
        if checked and not self._is_known(_host_name(host)):
            return f"this server is not {host[:80]!r}: see --allowed_hosts"
        origin = values.get(b"origin")
        if origin is not None and origin.lower().partition("://")[2] != host:
            return _FOREIGN
        # A link to the page may stand anywhere; a question may not.
        foreign = values.get(b"sec-fetch-site") == "cross-site"
        return _FOREIGN if foreign and method != "GET" else ""

    def _is_known(self, name: str) -> bool:
        """A page elsewhere can point a name at this machine, no address."""
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host
