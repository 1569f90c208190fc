"""Words of a text as BM25 counts them, and words that say nothing (L1)."""

import re
import unicodedata

from common.errors import UserError
from data.finetuning.ranking import lines

FLAG = "--stop_words"
ENGLISH = "en"
# Scripts that leave no space between words: a run of their characters is read
# as its overlapping pairs, as Lucene's analyser of them does.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese characters
    "\U00020000-\U0003ffff"
)
# Vowel signs and accents that stand alone belong to their word; \w lacks them.
_MARKS = "".join(
    chr(code)
    for code in range(0x300, 0xFFFF)
    if unicodedata.category(chr(code)) in ("Mn", "Mc")
)
_RUN = re.compile(rf"[{_UNSPACED}]+|(?:[^\W{_UNSPACED}][{_MARKS}]*)+")
_FIRST = re.compile(rf"[{_UNSPACED}]")


def split(text: str) -> list[str]:
    """Words of at least two letters; pairs where no spaces are written.

    A run of one such character is a word.
    """
    words = []
    for run in _RUN.findall(text):
        if not _FIRST.match(run):
            if len(run) > 1:
                words.append(run)
        elif len(run) == 1:
            words.append(run)
        else:
            words += [run[i : i + 2] for i in range(len(run) - 1)]
    return words


def stop_words(name: str) -> tuple[str, ...]:
    """Words to leave out, in lower case.

    Args:
      name: "" = none, "en" = English ones, else a file with a word per line.

    Raises:
      UserError: no such file, or a line of several words.
    """
    if not name:
        return ()
    if name == ENGLISH:
        tool = lines.package("bm25s.stopwords")
        return tuple(tool.STOPWORDS_EN)
    words = []
    for number, line in lines.read(name, FLAG):
        if line.strip():
            word = lines.check_id(name, number, "stop word", line.strip())
            words.append(word.lower())
    if not words:
        raise UserError(
            f"{FLAG}={name} holds no word: give en, a file with a word per "
            "line, or an empty value for none"
        )
    return tuple(words)
