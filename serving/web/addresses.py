"""Places of connections, in all and by address, and turns of requests.

Who comes when a bound is reached takes the place of the connection that has
waited longest for a request: of the same address where the address has reached
its bound, else of the address that has most. So idle connections never keep
others out.
"""

import collections
import functools
import ipaddress
import logging
import time
from collections.abc import Callable
from typing import Protocol

_LOG = logging.getLogger("serving")
_MOST_NAMES = 10_000  # whose turns are remembered


class Idle(Protocol):
    """A connection that waits for a request."""

    def give_way(self) -> None:
        """Closes it."""


class Connections:
    """Counts connections by address, and knows which are idle.

    An IPv6 network of 64 bits is one address.
    """

    def __init__(
        self,
        most: int,
        per_address: int,
        on_refused: Callable[[], None] = lambda: None,
    ):
        self._on_refused = on_refused
        self.most = most
        self._per_address = per_address
        self._open: collections.Counter[str] = collections.Counter()
        self._idle: dict[str, dict[Idle, None]] = {}
        self.total = 0

    def enter(self, address: str) -> bool:
        """Counts one more; False: there is no room for it."""
        name = owner(address)
        full = self._open[name] >= self._per_address
        if full or self.total >= self.most:
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


class Turns:
    """Token buckets by name: so many at once, then one whenever its time comes.

    Of more than `_MOST_NAMES` the one that has not come for longest is
    forgotten, so many addresses take no memory.

    Args:
      rate: turns of a name in a second; 0 = any number.
      burst: turns that need not wait; 0 = those of a second.
      most: seconds that a turn is waited for; who comes too early takes it
        then. 0 = it is refused, which costs it nothing.
    """

    def __init__(
        self,
        rate: float,
        burst: int = 0,
        most: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._step = 1.0 / rate if rate else 0.0
        self._lead = max((burst or rate) - 1.0, 0.0) * self._step
        self._most = most
        self._clock = clock
        # When each would have had all of its turns at its rate.
        self._paid: dict[str, float] = {}

    def seconds(self, name: str = "") -> float:
        """0: now; else in so many seconds."""
        if not self._step:
            return 0.0
        now = self._clock()
        paid = max(self._paid.pop(name, now), now)
        early = max(paid - self._lead - now, 0.0)
        if self._most:
            early = min(early, self._most)
            paid = min(paid, early + self._lead + now)
        if self._most or not early:
            paid += self._step
        self._paid[name] = paid
        if len(self._paid) > _MOST_NAMES:
            del self._paid[next(iter(self._paid))]
        return early


@functools.lru_cache(maxsize=4096)
def owner(address: str) -> str:
    """Whom an address belongs to: an IPv4 address, an IPv6 network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.version == 4:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((int(ip) >> 64 << 64, 64)))
