"""Sentences of running text, in any script."""

import re

# Characters that stand without blanks between words: ideographs, kana,
# Bopomofo, their punctuation and full-width forms. (Korean has blanks.)
_WIDE = "\u3001-\u303f\u3040-\u312f\u31a0-\u31ff\u3400-\u9fff\uf900-\ufaff"
_WIDE += "\ufe30-\ufe4f\uff01-\uff9f\U00020000-\U0003ffff"
_STOP = "\u3002\uff01\uff1f\uff61"  # 。！？｡
_CLOSING = "\u300d\u300f\uff09\u3011\u300b\u3009\uff63\u201d\u2019)\"'"
# A sentence ends at . ! ? and their like in other scripts (and closing marks)
# before white space and what may begin the next one. Abbreviations before a
# name are cut, too: harmless here. 。！？ end one without white space; a quotation
# that the sentence goes on after (「...。」と言った) does not.
_SENTENCE = re.compile(
    r"(?<=[.!?\u061f\u06d4\u0964\u0965][\"')\]”’])\s+(?=\S)"
    r"|(?<=[.!?\u061f\u06d4\u0964\u0965])\s+(?=[^a-z\s])"
    rf"|(?<=[{_STOP}])(?![{_STOP}{_CLOSING}])\s*"
    rf"|(?<=[{_STOP}][{_CLOSING}])(?![{_STOP}{_CLOSING}\u3040-\u309f])\s*"
    rf"|(?<=[{_STOP}][{_CLOSING}]{{2}})(?![{_STOP}{_CLOSING}\u3040-\u309f])\s*"
)
_INSIDE_WIDE = re.compile(rf"(?<=[{_WIDE}])\n(?=[{_WIDE}])")


def sentences(paragraph: str) -> list[str]:
    """Cuts a paragraph; the text stays as it is but for white space."""
    return [s for s in _SENTENCE.split(" ".join(paragraph.split())) if s]


def join_lines(lines: list[str]) -> str:
    """Lines of one paragraph; no blank where Chinese or Japanese goes on."""
    text = "\n".join(line.strip() for line in lines)
    return _INSIDE_WIDE.sub("", text).replace("\n", " ")
