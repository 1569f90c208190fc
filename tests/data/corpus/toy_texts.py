"""Texts to filter and files of them."""

import random

WORDS = (
    "the mill by river was old and its wheel turned when water came from "
    "hills people there say that nobody remembers who built it after long "
    "winter some farmer bought every house near bridge but did not stay"
).split()


def prose(seed, lines=8):
    """English-looking lines that no two seeds share."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=14)) + "." for _ in range(lines)]


def changed(lines, places=1):
    """The same text with a few other words."""
    words = "\n".join(lines).split(" ")
    for i in range(places):
        words[(i + 1) * len(words) // (places + 2)] = "changed"
    return " ".join(words).split("\n")


def write(path, documents, end=""):
    text = "\n\n".join("\n".join(lines) for lines in documents)
    path.write_text(text + "\n\n" + end, "utf-8")
    return path


GERMAN = [
    "Die alte Mühle am Fluss gehörte niemandem mehr, und das Rad stand still.",
    "Nach einem langen Winter kaufte ein Bauer aus der Stadt das ganze Haus.",
    "Er blieb nicht, denn die Brücke war zu weit und das Wasser zu kalt.",
    "Heute erinnert sich keiner daran, wer das alles einmal gebaut hat.",
]


def corpus_with_every_reason():
    """(documents, what should happen to each)."""
    good = [prose(i) for i in range(6)]
    bad = {
        "short": ["Too short."],
        "symbols": ["| 1 | + - * / | == | {} | [] | <> |"] * 9,
        "language": GERMAN,
        "repeated_lines": [*prose(20, 4), *prose(20, 4), *prose(20, 4)],
        "exact_duplicate": good[0],
        "near_duplicate": changed(good[1]),
    }
    frequent = ["Our shop is open from nine to five on all days. " * 3]
    boilerplate = [
        [*frequent, f"Item {i} of {i * 7}: " + "x" * i] for i in range(4)
    ]
    documents = [*good, *bad.values(), *boilerplate]
    fates = ["kept"] * 6 + [*bad] + ["boilerplate"] * 4
    return documents, fates
