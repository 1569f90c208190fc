"""Unicode's forms in linear time, and how long a text becomes."""

import random
import re
import unicodedata

import pytest

from data.text import normalization

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# Marks of several classes, marks that become two, characters without a class
# that become marks alone, characters that compose, Hangul by parts, U+FDFA.
ALPHABET = (
    "ae\u1e69\u00e9\u0301\u0327\u0323\u0308\u0344\u0f71\u0f72\u0f73\u0f75\u0f81"
    "\uff76\uff9e\uff9f\u3099\u1100\u1161\u11a8\uac01\ufdfa\u0653\u0627 \u200d"
)
LONG = {
    "alternating": "a" + "\u0301\u0327" * 20_000,
    "badly sorted": "a" + "\u0301" * 20_000 + "\u0327" * 20_000 + "e",
    "one class": "e" + "\u0301" * 40_000,
    "Tibetan vowels": "\u0f40" + "\u0f73" * 20_000,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_that_of_unicodedata(form, monkeypatch):
    monkeypatch.setattr(normalization, "_LONG_RUN", 3)
    pick = random.Random(5)
    sorted_apart = 0
    for _ in range(400):
        text = "".join(pick.choices(ALPHABET, k=pick.randrange(40)))
        sorted_apart += normalization._has_long_run(text)
        wanted = unicodedata.normalize(form, text)
        assert normalization.unicode_form(form, text) == wanted, ascii(text)
    assert 100 < sorted_apart < 400


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("form", FORMS)
def test_long_runs_of_marks_reach_unicodedata_in_order(name, form, monkeypatch):
    """It sorts by insertion, which takes the square of the length."""
    seen = []

    def normalize(form, text):
        seen.append(text)
        return real(form, text)

    real = unicodedata.normalize
    monkeypatch.setattr(normalization.unicodedata, "normalize", normalize)
    normalization.unicode_form(form, LONG[name])
    (long,) = [text for text in seen if len(text) > 20]
    classes = [unicodedata.combining(c) for c in long]
    falls = sum(0 < b < a for a, b in zip(classes, classes[1:], strict=False))
    assert falls == 0


def test_normalise_drops_long_runs_of_marks():
    assert normalization.normalise(LONG["badly sorted"]) == "ae"


def test_most_chars_is_no_less_than_what_normalising_makes():
    assert normalization.most_chars("\ufdfa" * 7 + "a\u0301") == 7 * 18 + 2
    assert normalization.most_chars("\ud7a3\uac00") == 6
    for point in range(0x110000):
        char = chr(point)
        most = normalization._sizes()[point]
        assert most >= len(unicodedata.normalize("NFKD", char)) >= 1
    text = ALPHABET * 3
    assert normalization.most_chars(text) >= len(normalization.normalise(text))


def test_blanks_are_the_white_space_of_python():
    text = "".join(map(chr, range(0x110000)))
    wanted = [c.isspace() for c in text]
    assert normalization.blanks(text).tolist() == wanted
    # So printable text without two blanks in a row has nothing to join.
    assert not any(c.isspace() and c.isprintable() for c in text if c != " ")


def _plain_spans(text, remove_space):
    """(character, start, end) of each normalised one, run by run."""
    runs = list(re.finditer(r"\s+|``|''|.", text, re.DOTALL))
    if not remove_space:
        runs = list(re.finditer(r"``|''|.", text, re.DOTALL))
    while remove_space and runs and runs[0].group().isspace():
        del runs[0]
    while remove_space and runs and runs[-1].group().isspace():
        del runs[-1]
    spans = []
    for run in runs:
        new = {"``": '"', "''": '"'}.get(run.group())
        if new is None and remove_space and run.group().isspace():
            new = " "
        if new is None:
            new = normalization.normalise(run.group(), remove_space=False)
        if not new and spans:
            last = spans[-1][1]
            spans = [(c, a, run.end() if a == last else b) for c, a, b in spans]
        spans += [(char, *run.span()) for char in new]
    return spans


@pytest.mark.parametrize("remove_space", [True, False])
def test_every_character_has_its_raw_span(remove_space):
    pick = random.Random(1)
    for _ in range(600):
        letters = ALPHABET + " \t\n\u00a0``''" * pick.randrange(4)
        text = "".join(pick.choices(letters, k=pick.randrange(14)))
        aligned = normalization.align(text, remove_space=remove_space)
        found = zip(aligned.text, aligned.starts, aligned.ends, strict=True)
        assert list(found) == _plain_spans(text, remove_space), ascii(text)


def test_marks_are_those_of_every_plane():
    wanted = [
        unicodedata.combining(char) > 0
        or bool(unicodedata.decomposition(char))
        and not normalization._decompose(char)
        for char in map(chr, range(0x110000))
    ]
    assert normalization._marks().tolist() == wanted
