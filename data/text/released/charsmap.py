"""SentencePiece's table of characters in a `tokenizer.json` ("Precompiled").

The table is a trie (a double array) over the UTF-8 of its keys, and behind it
the new texts, each ended by a NUL.

Source: Kudo and Richardson, 2018, "SentencePiece"; Yata's Darts-clone.
"""

import base64
import functools
import struct

import numpy as np

_VALUE = (1 << 31) - 1
_LABEL = (1 << 31) | 0xFF
_LEAF = 1 << 8
_LONGEST = 5
_MOST_NODES = 1 << 17  # several times those of NFKC with case folding


@functools.lru_cache(maxsize=8)
def read(charsmap: str) -> dict[str, str]:
    """Old text -> new text of a table in base 64, of keys that texts can match.

    The package asks for no text of more than `_LONGEST` bytes. Raises
    ValueError: the table is damaged.
    """
    raw = base64.b64decode(charsmap)
    size = int.from_bytes(raw[:4], "little")
    if not size or size % 4 or 4 + size > len(raw):
        raise ValueError(f"its trie has {size} of {len(raw) - 4} bytes")
    units = np.frombuffer(raw[4 : 4 + size], "<u4")
    texts = raw[4 + size :]
    labels = np.arange(1, 256)
    rewritten = {}
    nodes = 0
    waiting = [(b"", _offset(int(units[0])))]
    while waiting:
        key, base = waiting.pop()
        at = base ^ labels
        at = at[at < len(units)]
        for place in at[units[at] & _LABEL == at ^ base].tolist():
            nodes += 1
            if nodes > _MOST_NODES:  # a hostile one has no end
                raise ValueError(f"its trie has more than {_MOST_NODES} nodes")
            unit, longer = int(units[place]), key + bytes([place ^ base])
            below = place ^ _offset(unit)
            if unit & _LEAF:
                start = int(units[below]) & _VALUE
                new = texts[start : texts.index(b"\0", start)]
                rewritten[longer.decode("utf-8")] = new.decode("utf-8")
            if len(longer) < _LONGEST:
                waiting.append((longer, below))
    return rewritten


def _offset(unit: int) -> int:
    """Distance from a node to its children's block."""
    return (unit >> 10) << ((unit & (1 << 9)) >> 6)


def probe(key: str, new: str) -> bytes:
    """A table with one key, as the package takes it."""
    content = key.encode()
    # Behind byte i of the key its children's block, from 256 (i + 1) on.
    units = [0] * (256 * (len(content) + 2))
    units[0] = 256 << 10
    for i, byte in enumerate(content):
        at = 256 * (i + 1) ^ byte
        units[at] = (at ^ 256 * (i + 2)) << 10 | byte
    units[at] |= _LEAF
    units[256 * (len(content) + 1)] = 1 << 31
    raw = struct.pack(f"<I{len(units)}I", 4 * len(units), *units)
    return raw + new.encode() + b"\0"
