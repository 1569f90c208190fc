"""The head of a request, before it is parsed: bounds on its lines and bytes."""

import re

MOST_HEAD = 32_768  # bytes
MOST_HEADERS = 100  # lines
MOST_URL = 8_192  # bytes of the first line
END = b"\r\n\r\n"
_REQUEST_LINE = re.compile(rb"[A-Z]+ [!-~]+ HTTP/(\d\.\d)")


class Broken(Exception):
    """A request that breaks a rule: a status, one line, more headers."""

    def __init__(self, status: int, message: str, *headers: bytes):
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers


def path_of(head: bytes) -> str:
    """The path that a head asks for, "" where its first line has none."""
    parts = head[: head.find(b"\r\n")][:MOST_URL].split(b" ")
    path = parts[1] if len(parts) == 3 else b""
    return path.partition(b"?")[0].decode("latin-1")


def check_part(head: bytearray, seen: int) -> None:
    """Raises Broken when a head that is not whole is wrong already."""
    if not b"A" <= head[:1] <= b"Z":
        raise Broken(400, "this is not an HTTP request")
    if len(head) > MOST_HEAD:
        raise Broken(431, f"the headers are larger than {MOST_HEAD} bytes")
    if len(head) > MOST_URL and head.find(b"\r\n", 0, MOST_URL) < 0:
        raise Broken(414, f"the URL is longer than {MOST_URL} bytes")
    if head.count(b"\n", seen) > head.count(b"\r\n", max(seen - 1, 0)):
        raise Broken(400, "wanted lines that end in CR LF")


def check_whole(head: bytes) -> None:
    """Raises Broken unless a whole head is within its bounds."""
    lines = head.count(b"\n")
    if head.count(b"\r\n") != lines or head.count(b"\r") != lines:
        raise Broken(400, "wanted lines that end in CR LF")
    if len(head) > MOST_HEAD or lines - 2 > MOST_HEADERS:
        raise Broken(
            431,
            f"wanted at most {MOST_HEADERS} headers of {MOST_HEAD} bytes, "
            f"found {lines - 2} of {len(head)}",
        )
    first = head[: head.find(b"\r\n")]
    if len(first) > MOST_URL:
        raise Broken(414, f"the URL is longer than {MOST_URL} bytes")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise Broken(400, "this is not an HTTP request")
    if match[1] not in (b"1.0", b"1.1"):
        raise Broken(505, "wanted HTTP/1.0 or HTTP/1.1")
