"""SentencePiece rules of new vocabularies: composed characters.

SentencePiece's own `nmt_nfkc` composes only what was taken apart wholly
("e" + circumflex + acute), not by half (e-circumflex + acute, as Vietnamese is
often typed), takes the Thai and Lao sign AM apart and makes a space of the
zero-width non-joiner, which stands inside Persian and Indic words. These rules
are `nmt_nfkc`'s for single characters, but for those, and all canonical ways to
write a composed character for sequences. They become a table inside the
vocabulary, so that every reader of the file applies the same ones.
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterator

import sentencepiece

NAME = "xlnet_composed_v1"  # `normalizer_spec.name` of the vocabulary
# The signs AM and the non-joiner.
_KEPT = "\u0e33\u0eb3\u200c"
# Half-width katakana and their voicing marks.
_HALF_KANA = tuple(map(chr, range(0xFF66, 0xFF9E)))
_HALF_MARKS = "\uff9e\uff9f"
# Arabic vowel signs: in canonical order they stand between a letter and its
# hamza or madda, with which it is one character.
_ARABIC = range(0x600, 0x700)
_VOWEL_SIGNS = (*map(chr, range(0x64B, 0x653)), "\u0670")
_SURROGATES = range(0xD800, 0xE000)
_HANGUL = range(0xAC00, 0xD7A4)


@functools.lru_cache(maxsize=2)
def rules(uncased: bool) -> dict[str, str]:
    """Character or sequence -> what SentencePiece replaces it by.

    Uncased, what comes out is lower-cased, too ("\u2103" has a capital C).
    """
    rule_of = {
        char: new
        for char, new in each(rule_name="nmt_nfkc")
        if new != char and char not in _KEPT
    }
    for char in characters():
        if unicodedata.normalize("NFD", char) == char:
            continue
        new = rule_of.get(char, char)
        for form in _forms(char):
            if len(form) > 1 and form != new:
                rule_of[form] = new
    for form, new in _between_vowel_signs():
        rule_of[form] = new
    for kana, mark in itertools.product(_HALF_KANA, _HALF_MARKS):
        new = unicodedata.normalize("NFKC", kana + mark)
        if len(new) == 1:
            rule_of[kana + mark] = new
    if uncased:
        rule_of = {form: new.lower() for form, new in rule_of.items()}
    return {form: new for form, new in rule_of.items() if form != new}


def to_tsv(table: dict[str, str]) -> str:
    """The format of SentencePiece's `--normalization_rule_tsv`."""

    def points(text: str) -> str:
        return " ".join(f"{ord(c):X}" for c in text)

    return "".join(f"{points(a)}\t{points(b)}\n" for a, b in table.items())


@functools.lru_cache(maxsize=1)
def characters() -> list[str]:
    """All code points but surrogates."""
    return [chr(p) for p in range(0x110000) if p not in _SURROGATES]


def each(**rules: str | bytes) -> Iterator[tuple[str, str]]:
    """(character, what SentencePiece's normaliser makes of it), all but NUL.

    `rules`: `rule_name`, or the bytes of a vocabulary as `model_proto`.
    """
    normaliser = sentencepiece.SentencePieceNormalizer(
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
        **rules,
    )
    known = characters()[1:]
    return zip(known, normaliser.normalize(known), strict=True)


def _forms(char: str) -> set[str]:
    """All canonically equal spellings, of marks in canonical order or not."""
    if ord(char) in _HANGUL:
        whole = unicodedata.normalize("NFD", char)
        return {whole, unicodedata.normalize("NFC", whole[:2]) + whole[2:]}
    parts = _parts(char)
    if not parts:
        return {char}
    first, *marks = parts
    if not marks:  # one character stands for another
        return {char, first}
    forms = {char}
    for form in _forms(first):
        forms.add(form + marks[0])
        # Marks that do not touch each other may come in either order.
        base, rest = form[0], form[1:]
        for order in itertools.permutations(rest + marks[0]):
            other = base + "".join(order)
            if unicodedata.normalize("NFC", other) == unicodedata.normalize(
                "NFC", char
            ):
                forms.add(other)
    return forms


def _between_vowel_signs() -> Iterator[tuple[str, str]]:
    """Arabic letter, one or two vowel signs, mark -> character, signs."""
    signs = [
        "".join(pair)
        for size in (1, 2)
        for pair in itertools.product(_VOWEL_SIGNS, repeat=size)
    ]
    for char in map(chr, _ARABIC):
        parts = _parts(char)
        if len(parts) == 2:
            for between in signs:
                yield parts[0] + between + parts[1], char + between


def _parts(char: str) -> list[str]:
    """The canonical decomposition, one level deep."""
    text = unicodedata.decomposition(char)
    if not text or text.startswith("<"):
        return []
    return [chr(int(p, 16)) for p in text.split()]
