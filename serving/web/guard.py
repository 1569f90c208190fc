"""What surrounds every call: clients that leave, errors, the end of service."""

import asyncio
import logging
from collections.abc import Callable

from starlette.requests import ClientDisconnect

from serving.web import wire
from serving.web.metrics import Metrics

_LOG = logging.getLogger("serving")
_CLOSE = (b"connection", b"close")


class Guard:
    """ASGI middleware.

    A client that leaves is counted and costs no trace; whatever else happens
    is one line outside and a trace in the log. When the server ends, answers
    carry `Connection: close`.

    Args:
      app: the application.
      metrics: counts.
      draining: whether the server is ending.
    """

    def __init__(self, app, metrics: Metrics, draining: Callable[[], bool]):
        self._app = app
        self._metrics = metrics
        self._draining = draining

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
                if self._draining() and _CLOSE not in headers:
                    message = message | {"headers": [*headers, _CLOSE]}
            await send(message)

        try:
            await self._app(scope, receive, guarded_send)
        except ClientDisconnect:
            self._metrics.disconnects.inc()
            if not started:  # nobody reads it, but a call must be answered
                await _send_error(guarded_send, 499, "the client left")
        except asyncio.CancelledError:  # the server's time is over
            if started:
                raise
            await _send_error(guarded_send, 503, "the server is ending")
        except Exception as e:
            _LOG.error("request failed", exc_info=e)
            if started:
                raise
            await _send_error(guarded_send, 500, "internal error")


async def _send_error(send, status: int, message: str) -> None:
    body = wire.error(message)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        _CLOSE,
    ]
    start = {"type": "http.response.start", "status": status}
    await send(start | {"headers": headers})
    await send({"type": "http.response.body", "body": body})
