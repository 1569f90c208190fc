"""The site names every page once, and the pages' links lead somewhere."""

import re

from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "measured" not in p.parts)


def test_every_page_is_named_once():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    named = re.findall(r": (\S+\.md)$", nav, re.M)
    assert sorted(named) == [p.relative_to(DOCS).as_posix() for p in PAGES]


def test_links_and_pictures_of_pages_exist():
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in target and not (page.parent / target).exists():
                missing.append((page.name, target))
    assert not missing


def test_every_diagram_is_on_a_page():
    text = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    drawn = [p.name for p in (DOCS / "figures").glob("*.svg")]
    assert drawn and all(f"figures/{name}" in text for name in drawn)


# The left column of CONTRIBUTING.md's table, and their kind.
NOT_SAID = (
    "says no",
    "do not notice",
    "does not notice",
    "frequencies of pieces",
    "mean nothing",
    "is to be gone on with",
    "is joined again",
    "empty of a word",
    "the notes give",
    "is believed",
)


def test_pages_and_recipes_use_the_terms_of_the_field():
    """One private phrase once in a page is found."""
    read = [*PAGES, ROOT / "README.md", *(ROOT / "flags").rglob("*.py")]
    found = [
        (path.name, phrase)
        for path in read
        for phrase in NOT_SAID
        if phrase in " ".join(path.read_text(encoding="utf-8").split())
    ]
    assert not found
