"""Fields of protocol buffers as bytes, where no class of theirs is needed (L0)."""


def header(number: int, size: int) -> bytes:
    """What stands before `size` bytes of the field of this number."""
    return _varint(number << 3 | 2) + _varint(size)


def field(number: int, payload: bytes) -> bytes:
    """A text, bytes or a message as a field.

    >>> field(1, b"ab")
    b'\\n\\x02ab'
    """
    return header(number, len(payload)) + payload


def _varint(value: int) -> bytes:
    """A number of variable length: seven bits a byte, the lowest first."""
    groups = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
