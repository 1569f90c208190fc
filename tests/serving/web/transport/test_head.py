"""Heads of requests: what is wrong with them, whole or in part."""

import pytest

from serving.web.transport import head

LINE = b"GET / HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("first", "path"),
    [
        (b"GET /a?b=c HTTP/1.1", "/a"),
        (b"GET /\xe9 HTTP/1.1", "/é"),
        (b"GET /a", ""),
        (b"", ""),
    ],
)
def test_the_path_of_a_head(first, path):
    assert head.path_of(first + b"\r\nHost: a\r\n\r\n") == path


@pytest.mark.parametrize(
    ("part", "status"),
    [
        (b"G", 0),
        (LINE + b"Host", 0),
        (LINE + b"a: b\r", 0),
        (b"get", 400),
        (b"\x16\x03", 400),
        (b"GET / HTTP/1.1\n", 400),
        (b"GET /" + b"a" * head.MOST_URL, 414),
        (LINE + b"a" * head.MOST_HEAD, 431),
    ],
)
def test_a_part_of_a_head_is_refused_as_soon_as_it_is_wrong(part, status):
    if not status:
        head.check_part(bytearray(part), 0)
        return
    with pytest.raises(head.Broken) as found:
        head.check_part(bytearray(part), 0)
    assert found.value.status == status and found.value.message


@pytest.mark.parametrize(
    ("whole", "status"),
    [
        (LINE + b"a: b\r\n" * head.MOST_HEADERS + b"\r\n", 0),
        (LINE.replace(b"1.1", b"1.0") + b"\r\n", 0),
        (LINE + b"a: b\r\n" * (head.MOST_HEADERS + 1) + b"\r\n", 431),
        (LINE + b"a: b\nc: d\r\n\r\n", 400),
        (LINE + b"a: b\rc: d\r\n\r\n", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"GET /" + b"a" * head.MOST_URL + b" HTTP/1.1\r\n\r\n", 414),
    ],
)
def test_a_whole_head_is_within_its_bounds(whole, status):
    if not status:
        head.check_whole(whole)
        return
    with pytest.raises(head.Broken) as found:
        head.check_whole(whole)
    assert found.value.status == status and found.value.message
