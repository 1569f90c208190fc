"""CRC-32C of many equally long records at once, in numpy.

TFRecord files carry masked CRC-32C sums. Data workers import no TensorFlow, and
a byte-by-byte loop in Python would cost more than everything else, so the sum
is vectorised over records and over pieces of records. It rests on linearity:
with a zero start the register after a message is the XOR, over its words, of
the word moved through the zero bytes that follow it.
"""

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78  # reflected
_MASK_DELTA = 0xA282EAD8
_PIECE = 64  # bytes that one vectorised loop goes through


def _advance_byte(state: int) -> int:
    for _ in range(8):
        state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
    return state


@functools.lru_cache(maxsize=4)
def _advance_tables(num_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables of the low and high half: the register after zero bytes."""
    columns = []
    for bit in range(32):
        state = 1 << bit
        for _ in range(num_bytes):
            state = _advance_byte(state)
        columns.append(state)
    halves = []
    for part in (columns[:16], columns[16:]):
        table = np.zeros(1, "<u4")
        for column in part:
            table = np.concatenate([table, table ^ np.uint32(column)])
        halves.append(table)
    return halves[0], halves[1]


def _advance(state: np.ndarray, num_bytes: int, spare) -> None:
    """Moves registers through zero bytes, in place.

    Args:
      state: uint32 [n].
      spare: uint32 [n] and intp [n] that it may write to.
    """
    low, high = _advance_tables(num_bytes)
    other, index = spare
    halves = state.view("<u2").reshape(-1, 2)
    # "wrap": with another mode `take` would look at all indices before.
    index[:] = halves[:, 1]
    high.take(index, out=other, mode="wrap")
    index[:] = halves[:, 0]
    low.take(index, out=state, mode="wrap")
    state ^= other


def _spare(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.empty(n, "<u4"), np.empty(n, np.intp)


def crc32c(data: np.ndarray) -> np.ndarray:
    """CRC-32C of each row.

    Args:
      data: uint8 [n, L], L >= 4.

    Returns:
      uint32 [n].
    """
    n, length = data.shape
    if length < 4:
        raise ValueError(f"rows must have at least 4 bytes, received {length}")
    pieces = -(-length // _PIECE)
    # Zero bytes in front of a message do not move a zero register; starting
    # from all ones is the same as inverting the first four bytes.
    padded = np.zeros((n, pieces * _PIECE), np.uint8)
    start = pieces * _PIECE - length
    padded[:, start:] = data
    padded[:, start : start + 4] ^= 0xFF
    words = padded.view("<u4").reshape(n * pieces, _PIECE // 4)
    state = np.zeros(n * pieces, "<u4")
    spare = _spare(len(state))
    for word in range(words.shape[1]):
        state ^= words[:, word]
        _advance(state, 4, spare)
    state = np.ascontiguousarray(state.reshape(n, pieces).T)
    total, spare = np.zeros(n, "<u4"), _spare(n)
    for piece in state:
        _advance(total, _PIECE, spare)
        total ^= piece
    return ~total


def masked(crc: np.ndarray) -> np.ndarray:
    """TFRecord's masked form of uint32 sums."""
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(_MASK_DELTA)
