"""Clients that send no more: those that wait for their answer, and the others.

A client that ends its sending side (`nc -N`, some proxies) and one that has left
send the same packet. The first bytes of every answer are the same, so they are
sent at once: the system of a client that has left resets the connection.
"""

import asyncio
import socket

from serving.web.transport.answer_transport import RestTransport

BEGINNING = b"HTTP/1.1 "
_LOOK_SECONDS = 0.05  # to the second look, and twice as long each time,
_MOST_LOOK_SECONDS = 1.0  # up to this: a reset comes within a round trip


class HalfClosed:
    """A connection that may still be written to; aborted if its client left."""

    def __init__(self, transport: asyncio.Transport):
        self._transport = transport
        self._timer: asyncio.TimerHandle | None = None
        self._seconds = _LOOK_SECONDS

    def answers(self, cycle) -> None:
        """Sends the beginning of the answer of uvicorn's `cycle`."""
        if not cycle.response_started:
            self._transport.write(BEGINNING)
            cycle.transport = RestTransport(self._transport, len(BEGINNING))
        if self._timer is None:
            self._look()

    def stop(self) -> None:
        """The connection is closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        # The event loop no longer watches a socket that has nothing to read.
        plain = self._transport.get_extra_info("socket")
        if plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._look)
        self._seconds = min(2 * self._seconds, _MOST_LOOK_SECONDS)
