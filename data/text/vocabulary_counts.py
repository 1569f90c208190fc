"""Symbols of a text by their counts; plain lists of them."""

import collections
from collections.abc import Sequence

from common import encodings, files
from common.errors import UserError

NEWLINE = "\n"


def read_list(path: str, unit: str = "word") -> list[str]:
    """Symbols of a plain list: the first column of each line.

    Args:
      path: one symbol a line, and what white space divides from it.
      unit: of characters ("char"), one that is white space itself is a symbol.
    """
    try:
        data = files.read_bytes(path)
    except FileNotFoundError as e:
        raise UserError(f"--vocab_file={path} does not exist") from e
    except OSError as e:
        raise UserError(f"--vocab_file={path} cannot be read: {e}") from e
    lines = encodings.lines(data, f"--vocab_file={path}")
    if unit == "char":
        return [_character(line) for line in lines if line]
    return [line.split()[0] for line in lines if line.split()]


def _character(line: str) -> str:
    """The first column of a line, which may be white space."""
    if line[1:2].isspace() or len(line) == 1:
        return line[0]
    return line.split()[0]


def count(text: str | bytes, unit: str, lower_case: bool, newline: bool):
    """How often each symbol occurs: a dict in order of first appearance.

    Args:
      text: bytes for `unit` byte.
      unit: "word", "char" or "byte".
      newline: count "\\n", for characters and bytes.
    """
    if unit == "byte":
        character_counts = collections.Counter(text)
        counts = {str(code): n for code, n in character_counts.items()}
        drop = "10"
    else:
        text = text.lower() if lower_case else text
        counts = dict(
            collections.Counter(text.split() if unit == "word" else text)
        )
        drop = NEWLINE
    if not newline:
        counts.pop(drop, None)
    return counts


def by_count(
    counts: dict[str, int],
    special: Sequence[str] = (),
    min_count: int = 0,
    max_symbols: int = 0,
) -> list[str]:
    """Symbols in the original's order.

    Special ones first, then by falling count; equal counts as they first
    appeared.

    Args:
      counts: in order of first appearance.
      special: always there; their counts do not matter.
      min_count: symbols that occur less often are left out.
      max_symbols: counted symbols that are looked at; 0 = all.
    """
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    if max_symbols:
        ordered = ordered[:max_symbols]
    symbols = dict.fromkeys(special)
    symbols |= dict.fromkeys(s for s, n in ordered if n >= min_count)
    return list(symbols)
