"""Who may connect and ask: bounds in all and per address, before any work.

A connection that its client has closed again, or that is one too many, costs
two system calls. Who comes when a bound is reached takes the place of the
connection that has waited longest for a request: of the same address where the
address has reached its bound, else of the address that has most. So idle
connections never keep others out.

Requests are counted by address as well: as many as a second allows may come at
once, then one whenever its time has come (a token bucket).
"""

import collections
import functools
import ipaddress
import logging
import socket
import time
from collections.abc import Callable
from typing import Protocol

_LOG = logging.getLogger("serving")
_EACH_TURN = 32  # connections looked at in one turn of the event loop
_MOST_ADDRESSES = 10_000  # whose requests are remembered


class Idle(Protocol):
    """A connection that waits for a request."""

    def give_way(self) -> None:
        """Closes it."""


class Connections:
    """Counts connections by address, and knows which are idle.

    Args:
      most: in all.
      per_address: of one address; an IPv6 network of 64 bits is one.
      on_refused: called for each that there is no room for.
    """

    def __init__(
        self,
        most: int,
        per_address: int,
        on_refused: Callable[[], None] = lambda: None,
    ):
        self._on_refused = on_refused
        self._most = most
        self._per_address = min(per_address, most)
        self._open: collections.Counter[str] = collections.Counter()
        self._idle: dict[str, dict[Idle, None]] = {}
        self.total = 0

    def enter(self, address: str) -> bool:
        """Counts one more; False: there is no room for it."""
        name = owner(address)
        full = self._open[name] >= self._per_address
        if full or self.total >= self._most:
            if not self._make_room(name if full else self._largest()):
                self._open += collections.Counter()  # without zeros
                self._on_refused()
                _LOG.warning(
                    "a connection of %s is refused: %d are open, %d of them "
                    "its own; see --max_connections and "
                    "--max_connections_per_address",
                    name,
                    self.total,
                    self._open[name],
                )
                return False
        self._open[name] += 1
        self.total += 1
        return True

    def leave(self, address: str) -> None:
        """One less."""
        name = owner(address)
        self.total -= 1
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]

    def waits(self, connection: Idle, address: str) -> None:
        """`connection` waits for a request from now on."""
        self._idle.setdefault(owner(address), {})[connection] = None

    def works(self, connection: Idle, address: str) -> None:
        """`connection` has a request, or is gone."""
        name = owner(address)
        waiting = self._idle.get(name, {})
        waiting.pop(connection, None)
        if not waiting:
            self._idle.pop(name, None)

    def _largest(self) -> str:
        """The address with most idle connections."""
        return max(self._idle, key=lambda a: len(self._idle[a]), default="")

    def _make_room(self, name: str) -> bool:
        waiting = self._idle.get(name)
        if not waiting:
            return False
        oldest = next(iter(waiting))
        self.works(oldest, name)
        oldest.give_way()
        return True


class Rates:
    """Counts requests by address.

    Of more than `_MOST_ADDRESSES` the one that has not asked for longest is
    forgotten, so many addresses take no memory.

    Args:
      rate: requests of an address in a second, and at once; 0 = any number.
      on_refused: called for each that comes too early.
      clock: gives seconds.
    """

    def __init__(
        self,
        rate: float,
        on_refused: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._step = 1.0 / rate if rate else 0.0
        self._lead = max(1.0 - self._step, 0.0)
        self._on_refused = on_refused
        self._clock = clock
        # When each would have asked all that it did at its rate.
        self._paid: dict[str, float] = {}

    def seconds(self, address: str) -> float:
        """0: it may ask now; else in so many seconds."""
        if not self._step:
            return 0.0
        name, now = owner(address), self._clock()
        paid = max(self._paid.pop(name, now), now)
        early = paid - self._lead - now
        if early <= 0.0:
            paid += self._step
        self._paid[name] = paid
        if len(self._paid) > _MOST_ADDRESSES:
            del self._paid[next(iter(self._paid))]
        if early <= 0.0:
            return 0.0
        self._on_refused()
        return early


@functools.lru_cache(maxsize=4096)
def owner(address: str) -> str:
    """Whom an address belongs to: an IPv4 address, an IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))


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

    An event loop calls `accept` until it would block: that is after at most
    `_EACH_TURN` connections, so that others have their turn between them.

    Args:
      plain: a listening socket, which is no longer used.
      connections: the bounds.
    """

    def __init__(self, plain: socket.socket, connections: Connections):
        family, kind, number = plain.family, plain.type, plain.proto
        super().__init__(family, kind, number, plain.detach())
        self._connections = connections
        self._left = _EACH_TURN

    def accept(self) -> tuple[socket.socket, tuple]:
        """The next connection that may stay.

        Raises:
          BlockingIOError: there is none, or it is the turn of others.
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
