"""The transport of a connection as uvicorn's answer to a request sees it."""

import asyncio
from collections.abc import Callable


class AnswerTransport:
    """Behind the last answer it stays open while `lingers` says so.

    uvicorn closes it there, also where the client still sends.
    """

    def __init__(
        self, transport: asyncio.Transport, lingers: Callable[[], bool]
    ):
        self._transport, self._lingers = transport, lingers
        self.write, self.is_closing = transport.write, transport.is_closing

    def close(self) -> None:
        """Closes the connection, unless somebody else will."""
        if not self._lingers():
            self._transport.close()


class RestTransport:
    """Leaves out the first bytes, so many, which have been sent."""

    def __init__(self, transport: asyncio.Transport, sent: int):
        self._transport, self._sent = transport, sent
        self.close, self.is_closing = transport.close, transport.is_closing

    def write(self, data: bytes) -> None:
        """Of the first bytes those that are left."""
        self._transport.write(data[self._sent :])
        self._sent = 0
