"""Unicode's forms in linear time, and how long a text becomes."""

import random
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
