"""Sentences of the pages: median length, share over 30 words, Flesch's score.

python scripts/readability.py FOLDER    # of README.md and docs/**/*.md; as TSV

Tables, code and headings do not count; a span of code is one word. Syllables
are those of pyphen (requirements-docs.txt).
"""

import argparse
import pathlib
import re
import statistics
import sys

GENERATED = ("flags.md", "flag_names.md", "troubleshooting.md")
_MARKED = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
# What closes a quotation, a bracket or bold text may follow the full stop.
_END = re.compile(r"(?<=[.!?])(?:\*\*|[\")])?\s+(?=[A-Z\"(*\[])")


def pages(root: pathlib.Path) -> list[pathlib.Path]:
    """Those that people write: README.md, then what lies in docs/."""
    paths = sorted((root / "docs").rglob("*.md"))
    return [
        root / "README.md",
        *(
            p
            for p in paths
            if p.name not in GENERATED and "measured" not in p.parts
        ),
    ]


def paragraphs(page: str) -> list[str]:
    """Running text; an item of a list is a paragraph."""
    page = re.sub(r"```.*?```", "\n\n", page, flags=re.S)
    texts = []
    for block in re.split(r"\n\s*\n", page):
        lines = block.split("\n")
        if all(line.startswith("    ") for line in lines if line.strip()):
            continue
        parts = [""]
        for line in lines:
            if line.startswith(("|", "#", "!", "<")):
                parts.append("")
            elif _MARKED.match(line):
                parts.append(_MARKED.sub("", line, count=1))
            else:
                parts[-1] += f" {line.strip()}"
        texts += [part.strip() for part in parts if part.strip()]
    return texts


def cells(page: str) -> list[list[str]]:
    """Sentences of every cell of the tables, without their heads' rules.

    A semicolon ends a sentence here: what follows it is another fact.
    """
    page = re.sub(r"```.*?```", "", page, flags=re.S)
    page = re.sub(r"`[^`\n]*`", "CODE", page)
    page = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)
    sentences_by_cell = []
    for line in page.splitlines():
        if line.startswith("|") and line.strip("|-: "):
            for cell in re.split(r"(?<!\\)\|", line.strip("|")):
                sentences_by_cell.append(
                    re.split(r"(?<=[.!?])\s+(?=[A-Z])|;\s", cell)
                )
    return sentences_by_cell


def sentences(page: str) -> list[list[str]]:
    """The words of every sentence of two words or more."""
    words_of = []
    for text in paragraphs(page):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"`[^`]*`", "CODE", text)
        for sentence in _END.split(text):
            words = [w for w in sentence.split() if re.search(r"\w", w)]
            if len(words) > 1:
                words_of.append(words)
    return words_of


def measures(found: list[list[str]], syllables) -> tuple:
    """(sentences, median, share over 30 words, longest, Flesch)."""
    lengths = [len(words) for words in found]
    words = [re.sub(r"[^A-Za-z]", "", w) for words in found for w in words]
    words = [word for word in words if word]
    flesch = 206.835 - 1.015 * len(words) / len(found)
    flesch -= 84.6 * sum(map(syllables, words)) / len(words)
    over = sum(n > 30 for n in lengths) / len(lengths)
    median = statistics.median(lengths)
    return len(lengths), median, round(over, 3), max(lengths), round(flesch, 1)


def main() -> None:
    """Prints a row per page and one of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="has docs/")
    root = parser.parse_args().folder
    if not (root / "docs").is_dir():
        parser.error(f"wanted a folder with docs/, found {root}")
    try:
        import pyphen
    except ImportError as e:
        sys.exit(
            f"error: syllables need the package pyphen ({e}): pip install -r "
            "requirements-docs.txt"
        )

    split = pyphen.Pyphen(lang="en_US")

    def syllables(word: str) -> int:
        return len(split.inserted(word).split("-"))

    print("page\tsentences\tmedian\tover 30 words\tlongest\tFlesch")
    every = []
    for path in pages(root):
        page_sentences = sentences(path.read_text(encoding="utf-8"))
        if len(page_sentences) < 3:
            continue
        every += page_sentences
        name = path.name  # cards and recipes have the same names
        if path.parent.name in ("cards", "recipes"):
            name = f"{path.parent.name}/{name}"
        print(name, *measures(page_sentences, syllables), sep="\t")
    print("all", *measures(every, syllables), sep="\t")


if __name__ == "__main__":
    main()
