"""HTTP/1.1 of one connection: bounds first, then llhttp.

Bytes are looked at in this order, so that each costs less than the next:

    read       at most `_READ` bytes in a turn of the event loop; after a few
               bytes of a request that is not whole, the next ones gather
    head       up to its empty line, with bounds on its bytes, its lines, the
               URL; lines end in CRLF, the version is 1.0 or 1.1; its address
               may ask that often
    parser     headers (httptools, which is llhttp)
    body       by Content-Length, or in chunks that are not all frame
    next head  only when this request has been answered; until then its bytes
               are not read

What breaks a rule is answered by one line, and its connection is closed.
"""

import asyncio
import http
import math
import re

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from serving.web.forms import wire
from serving.web.scheduler import Scheduler
from serving.web.transport import head as heads
from serving.web.transport.answer_transport import AnswerTransport
from serving.web.transport.half_close import HalfClosed
from serving.web.transport.head import Broken

_READ = 16_384  # bytes of a turn
_BUFFER = memoryview(bytearray(_READ))  # each read is used up at once
_SLICE = 4_096  # bytes of chunks between two looks at their number
_FRAME = 4_096  # bytes that chunks may take beside their content ...
_FRAME_SHARE = 8  # ... and one more for so many bytes of content
_SMALL = 64  # bytes: pieces of a request that are smaller gather ...
_GATHER_SECONDS = 0.005  # ... for so long, as each read is work,
_MOST_GATHER_SECONDS = 0.04  # and twice as long each time, up to this
# After an early answer at least so many bytes, or so many of the largest bodies,
# are thrown away, and for so long.
_UNREAD = 262_144
_UNREAD_BODIES = 2
_UNREAD_SECONDS = 1.0

# Nothing is upgraded here; the parser would take the body for something else.
_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class BoundedProtocol(HttpToolsProtocol, asyncio.BufferedProtocol):
    """One connection; see above. A subclass sets `scheduler`."""

    scheduler: Scheduler
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None
    _gathering: asyncio.TimerHandle | None = None
    _gather_seconds = _GATHER_SECONDS
    _left: int | None = 0  # bytes of the body that are to come; None = chunks
    _framed = _content = 0  # bytes of chunks, and what they held
    _asked = ""  # path of the last head that was whole
    _unread: int | None = None  # bytes that may still be thrown away
    _ended: HalfClosed | None = None  # the client sends no more
    _stays = False  # the connection, behind an answer to a whole request

    # --- The connection ------------------------------------------------------

    def connection_made(self, transport) -> None:
        """Begins to wait for a head."""
        super().connection_made(transport)
        self._head = bytearray()
        self._held = b""  # of the next request
        self._arm()

    def connection_lost(self, exc) -> None:
        """Frees what the connection held."""
        self._disarm()
        if self._gathering is not None:
            self._gathering.cancel()
        if self._ended is not None:
            self._ended.stop()
        self._held = b""
        self.resume_writing()
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return _BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self.data_received(bytes(_BUFFER[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self.transport.is_closing():
            return
        if self._unread is not None:
            self._unread -= len(data)
            if self._unread < 0:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._take(data)
        if len(data) < _SMALL and (self._head or self._in_body):
            self.transport.pause_reading()
            self._gathering = self.loop.call_later(
                self._gather_seconds, self._read_on
            )
            self._gather_seconds = min(
                2 * self._gather_seconds, _MOST_GATHER_SECONDS
            )

    def eof_received(self) -> bool:
        """The client sends no more; whether it is answered yet.

        HTTPS has no such state: asyncio closes the connection.
        """
        whole = (self._answering or self._held) and not self._in_body
        if not whole or not self.transport.can_write_eof():
            return False
        if self._ended is None:  # it comes again where reading goes on
            self._ended = HalfClosed(self.transport)
            self._answer_the_last()
        return True

    def _answer_the_last(self) -> None:
        """Of a client that sends no more: what can be answered, or the end."""
        if self._answering and not self._in_body:
            self._ended.answers(self.cycle)
        elif not self._held:
            self.transport.close()

    def _read_on(self) -> None:
        """What has gathered is read, unless others wait to be answered."""
        if not self.flow.read_paused:
            self.transport.resume_reading()

    def give_way(self) -> None:
        """Ends a connection whose client has the next move: others need it."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """The client does not read: it has `seconds` for it."""
        super().pause_writing()
        self._wait_for_client()
        self._reading = self.loop.call_later(
            self.scheduler.options.read_timeout_s, self.transport.abort
        )

    def resume_writing(self) -> None:
        """The client reads."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
            self.scheduler.connections.works(self, self._address)
        super().resume_writing()

    # --- Bytes ---------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        """Heads and bodies, as far as it is their turn."""
        try:
            while data and self._unread is None:
                if self._in_body:
                    data = self._take_body(data)
                elif self._answering:
                    self._held += data
                    self.flow.pause_reading()
                    return
                else:
                    data = self._take_head(data)
        except Broken as e:
            self._refuse(e)

    @property
    def _in_body(self) -> bool:
        return self._left != 0

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _take_head(self, data: bytes) -> bytes:
        """Adds to the head; a whole one is parsed. What follows it."""
        head = self._head
        if len(head) < len(b"\r\n"):  # of some clients, after a body
            self._asked = ""
            data = (bytes(head) + data).removeprefix(b"\r\n")
            head.clear()
        if self._timer is None:
            self._arm()
        if data in (b"", b"\r"):
            head += data
            return b""
        seen = max(len(head) - len(heads.END) + 1, 0)
        head += data
        end = head.find(heads.END, seen)
        if end < 0:
            heads.check_part(head, seen)
            return b""
        whole, data = bytes(head[: end + 4]), bytes(head[end + 4 :])
        head.clear()
        self._asked = heads.path_of(whole)
        self._check_rate()
        heads.check_whole(whole)
        self._feed(_UPGRADE.sub(b"", whole))
        return data

    def _check_rate(self) -> None:
        """Raises Broken when its address has asked too often."""
        seconds = self.scheduler.early(self._address)
        if seconds:
            raise Broken(
                429,
                "too many requests of this address: see "
                "--max_requests_per_address",
                b"retry-after: %d" % math.ceil(seconds),
            )

    def _take_body(self, data: bytes) -> bytes:
        """Parses what belongs to the body. What follows it."""
        size = _SLICE if self._left is None else self._left
        part, data = data[:size], data[size:]
        if self._left is not None:
            self._left -= len(part)
            self._feed(part)
            return data
        self._framed += len(part)
        self._feed(part)
        frame = self._framed - self._content
        if frame > _FRAME + self._content // _FRAME_SHARE:
            raise Broken(
                400,
                "the chunks are too small: send larger ones, or all at once",
            )
        return data

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as e:
            cause = e.__context__
            if not isinstance(cause, Broken):
                what = "chunk or trailer" if self._in_body else "request"
                cause = Broken(400, f"this is not a valid HTTP {what}")
            raise cause from e

    # --- What the parser finds -----------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins; behind chunks also one that came too early."""
        if self._answering:
            self.cycle.keep_alive = False
            raise Broken(0, "")  # the present answer is the last
        super().on_message_begin()
        self._left, self._framed, self._content = 0, 0, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are left out."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The application begins."""
        values: dict[bytes, list[bytes]] = {}
        for name, value in self.headers:
            values.setdefault(name, []).append(value)
        hosts = len(values.get(b"host", ()))
        if hosts > 1 or not hosts and self.parser.get_http_version() != "1.0":
            raise Broken(400, f"wanted one Host header, found {hosts}")
        self._disarm()
        self._wait_for_client()  # the body
        if self.parser.get_http_version() == "1.0":
            self.expect_100_continue = False  # it knows no such answer
        super().on_headers_complete()
        if b"transfer-encoding" in values:
            self._left = None
        elif b"content-length" in values:
            self._left = int(values[b"content-length"][0])
        self.cycle.transport = AnswerTransport(self.transport, self._lingers)
        self._stays = self.cycle.keep_alive
        if self._in_body:  # an answer before its end says that it is the last
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if not self.cycle.response_started:
            self.cycle.keep_alive = self._stays
        self._left = 0
        self._gather_seconds = _GATHER_SECONDS
        self.scheduler.connections.works(self, self._address)
        super().on_message_complete()

    # --- Answers -------------------------------------------------------------

    def _lingers(self) -> bool:
        """Whether `on_response_complete` closes the connection, slowly."""
        return self._in_body and self.cycle.response_complete

    def on_response_complete(self) -> None:
        """The next request, or the end."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._in_body:  # the answer came before the whole question
            self._close_slowly()
        elif self._held:
            self._unset_keepalive_if_required()
            self.loop.call_soon(self._take_held)
        elif self._ended is not None:
            self.transport.close()
        else:
            self._wait_for_client()

    def _take_held(self) -> None:
        data, self._held = self._held, b""
        if not self.transport.is_closing():
            self._take(data)
        if self._ended is not None:
            self._answer_the_last()

    def _refuse(self, broken: Broken) -> None:
        if not broken.status:
            self._unread = _UNREAD
            return
        if self._answering:
            started = self.cycle.response_started
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if started:
                self.transport.abort()
                return
        body = wire.error(broken.message, broken.status, self._asked)
        phrase = http.HTTPStatus(broken.status).phrase
        head = [f"HTTP/1.1 {broken.status} {phrase}".encode()]
        head += [b": ".join(h) for h in self.server_state.default_headers]
        head += [
            b"content-type: application/json",
            b"content-length: %d" % len(body),
            b"connection: close",
            *broken.headers,
        ]
        self.transport.write(b"\r\n".join(head) + heads.END + body)
        self._close_slowly()

    def _close_slowly(self) -> None:
        """Closes when the client has read the answer, or soon.

        A socket that is closed with bytes unread takes back what was sent.
        """
        self._disarm()
        self._unset_keepalive_if_required()
        self._wait_for_client()
        largest = self.scheduler.options.max_body_bytes
        self._unread = max(_UNREAD, _UNREAD_BODIES * largest)
        if self.transport.can_write_eof():  # not with HTTPS
            self.transport.write_eof()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(
            _UNREAD_SECONDS, self.transport.abort
        )

    # --- Waiting -------------------------------------------------------------

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _arm(self) -> None:
        """A head is waited for."""
        self._wait_for_client()
        self._timer = self.loop.call_later(
            self.scheduler.options.read_timeout_s, self.transport.close
        )

    def _wait_for_client(self) -> None:
        """Who needs the place of a connection may take it from this one."""
        self.scheduler.connections.waits(self, self._address)

    def _disarm(self) -> None:
        """Nothing is waited for."""
        self.scheduler.connections.works(self, self._address)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
