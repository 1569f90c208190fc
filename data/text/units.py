"""What a token of a language model is, and what ends a line.

`line_end` is one of

    eos      a line is followed by `<eos>` (WikiText, Penn Treebank); pieces by
             `</s>`, or `<eod>` where the file has none
    marks    a line stands between two `<S>` (One Billion Word, as released)
    mark     one `<S>` between lines, and one before the first
    newline  "\\n" is a symbol like every other (characters, bytes)
    none     line ends vanish (enwik8 as released; text8)
"""

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
        super().__init__(
            f"{where}{symbol!r} is not in the vocabulary, which has no <unk>; "
            "add <unk> to a list that was given, or count the vocabulary with "
            "--unknown=unk or from all splits (--vocab_from=all)"
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
