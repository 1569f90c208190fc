"""What normalisation does to a corpus: counts, examples, a warning."""

from collections import Counter

import sentencepiece

from common.vocabularies.text_settings import TextSettings
from data.text.normalization import unicode_form

EXAMPLES = 3
WARN_ABOVE = 0.01
_WIDTH = 40  # characters shown of an example
# White space, however it is written, is not counted.
_BLANKS = str.maketrans(
    dict.fromkeys(
        [c for c in map(chr, range(0x3001)) if c.isspace()]
        + ["\u200b", "\u200e", "\u200f", "\ufeff"]
    )
)


class Changes:
    """Counts characters that do not reach the vocabulary as they are.

    A character counts as changed when the normalised sentence lacks it;
    spellings that Unicode calls equal (one character or letter and mark) do
    not count, nor does the case of text that is lower-cased by choice. Apart
    are those that only became compatible forms (NFKC: full width, ligatures).
    """

    def __init__(self, settings: TextSettings, rules: dict[str, str]):
        names = {"normalization_rule_name": "rule_name"}
        names["normalization_rule_tsv"] = "rule_tsv"
        self._settings = settings
        sentencepiece.set_min_log_level(2)  # it reports on reading the rules
        self._normaliser = sentencepiece.SentencePieceNormalizer(
            add_dummy_prefix=False,
            escape_whitespaces=False,
            **{names[k]: v for k, v in rules.items()},
        )
        self.characters = 0
        self.changed = 0
        self.compatible = 0
        self._severe: list[tuple[str, str]] = []
        self._mild: list[tuple[str, str]] = []

    def add(self, raw: str, normalised: str) -> None:
        raw = " ".join(raw.split())
        self.characters += len(raw.translate(_BLANKS))
        if raw.isascii():
            return
        new = self._normaliser.normalize(normalised)
        if new == raw:
            return
        plain = raw.lower() if self._settings.uncased else raw
        lost = _lost(*(unicode_form("NFC", t) for t in (plain, new)))
        if not lost:
            return
        other = _lost(*(unicode_form("NFKC", t) for t in (plain, new)))
        self.changed += lost
        self.compatible += max(lost - other, 0)
        kind = self._severe if other else self._mild
        if len(kind) < EXAMPLES:
            kind.append(_window(plain, new))

    def examples(self) -> list[tuple[str, str]]:
        """(raw, normalised) parts of sentences; lost marks come first."""
        return [*self._severe, *self._mild][:EXAMPLES]

    def report(self) -> list[str]:
        """Lines for the log."""
        count = max(self.characters, 1)
        other = self.changed - self.compatible
        lines = [
            f"normalisation ({self._settings}) changes {self.changed:,d} of "
            f"{self.characters:,d} characters ({self.changed / count:.2%}): "
            f"{self.compatible:,d} become compatible forms (full width, "
            f"ligatures), {other:,d} lose a mark or become others"
        ]
        lines += [f"  {raw}  ->  {new}" for raw, new in self.examples()]
        if other / count > WARN_ABOVE:
            lines.append(
                f"warning: normalisation takes {other / count:.1%} of the "
                "characters away from this text; --text_rule=composed keeps "
                "them"
                if not self._settings.keep_accents
                else f"warning: normalisation changes {other / count:.1%} of "
                "the characters: look at the examples"
            )
        return lines


def _lost(raw: str, new: str) -> int:
    """Characters of `raw` that `new` lacks, white space apart."""
    left = Counter(raw.translate(_BLANKS))
    left.subtract(Counter(new.translate(_BLANKS)))
    return sum(n for n in left.values() if n > 0)


def _window(raw: str, new: str) -> tuple[str, str]:
    """Both, from a little before the first difference."""
    pairs = enumerate(zip(raw, new, strict=False))
    difference = next((i for i, (a, b) in pairs if a != b), 0)
    start = max(0, difference - _WIDTH // 4)
    return raw[start : start + _WIDTH], new[start : start + _WIDTH]
