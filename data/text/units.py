"""What a token of a language model is, and what ends a line.

`line_end` is one of

    eos      a line is followed by `<eos>` (WikiText, Penn Treebank); pieces by
             `</s>`, or `<eod>` where the file has none
    marks    a line stands between two `<S>` (One Billion Word, as released)
    mark     one `<S>` between lines, and one before the first
    newline  "\\n" is a symbol like every other (characters, bytes)
    none     line ends vanish (enwik8 as released; text8)
"""

import collections
from collections.abc import Sequence

from common import encodings
from common.errors import UserError

UNITS = ("word", "char", "byte", "piece")
LINE_ENDS = {
    "word": ("eos", "marks", "mark", "none"),
    "char": ("newline", "none"),
    "byte": ("newline", "none"),
    "piece": ("eos", "none"),
}
EOS, MARK, NEWLINE = "<eos>", "<S>", "\n"
UNKNOWN = ("<unk>", "<UNK>")


class UnknownSymbolError(UserError):
    """Text that a vocabulary without `<unk>` cannot say."""

    def __init__(self, symbol: str, where: str = ""):
        self.symbol = symbol
        advice = (
            "add <unk> to a list that was given, or count the vocabulary with "
            "--unknown=unk or from all splits (--vocab_from=all)"
        )
        # No word has a blank.
        if symbol.startswith("byte ") and len(symbol) > 5:
            advice = (
                "take all 256 bytes (--vocab_from=fixed), or those of all splits "
                "(--vocab_from=all)"
            )
        super().__init__(
            f"{where}{symbol!r} is not in the vocabulary, which has no <unk>; "
            f"{advice}"
        )


def check_settings(
    unit: str, line_end: str, lower_case: bool, unknown: str
) -> None:
    """Refuses settings that no vocabulary can have."""
    if unit not in UNITS:
        raise UserError(
            f"--unit must be one of {', '.join(UNITS)}, received {unit!r}"
        )
    if line_end not in LINE_ENDS[unit]:
        raise UserError(
            f"--line_end must be one of {', '.join(LINE_ENDS[unit])} with "
            f"--unit={unit}, received {line_end!r}"
        )
    if unknown not in ("unk", "error"):
        raise UserError(
            f"--unknown must be one of unk, error, received {unknown!r}"
        )
    if lower_case and unit in ("byte", "piece"):
        raise UserError(
            f"--lower_case is not for --unit={unit}"
            + (
                ": the SentencePiece file says it (--uncased when it is made)"
                if unit == "piece"
                else ""
            )
        )


def mark_lines(text: str, line_end: str) -> str:
    """Text in which a word stands for each line's end; "" is no line."""
    if line_end == "eos":
        return text.replace(NEWLINE, f" {EOS} ")
    if line_end == "mark":
        return text.replace(NEWLINE, f" {MARK} ")
    if line_end == "marks" and text:
        closed = text.endswith(NEWLINE)
        text = text[:-1] if closed else text
        text = text.replace(NEWLINE, f" {MARK} {MARK} ")
        return f"{MARK} {text}" + (f" {MARK}" if closed else "")
    return text


NEWLINE = "\n"


def read_list(path: str, unit: str = "word") -> list[str]:
    """Symbols of a plain list: the first column of each line.

    Columns are what white space divides; of characters (`unit` "char") one that
    is white space itself is a symbol.
    """
    lines = encodings.read_lines(path, "vocab_file")
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

    `newline`: count "\\n", for characters and bytes.
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
    """Symbols in the original's order, of at least `min_count`.

    Special ones first, then by falling count; equal counts as they first
    appeared. `max_symbols` counted symbols are looked at; 0 = all.
    """
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    if max_symbols:
        ordered = ordered[:max_symbols]
    symbols = dict.fromkeys(special)
    symbols |= dict.fromkeys(s for s, n in ordered if n >= min_count)
    return list(symbols)
