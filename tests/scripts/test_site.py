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
