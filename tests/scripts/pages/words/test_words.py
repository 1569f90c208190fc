"""Words of pages and of recipes: the rules of Vale hold, with Vale or without."""

import shutil
import subprocess

import pytest

from scripts import readability
from tests.conftest import ROOT
from tests.scripts.pages.words import vale_rules

# The generated ones have the flags' texts and the messages of the commands.
GENERATED = [ROOT / "docs/reference" / name for name in readability.GENERATED]
PAGES = [*readability.pages(ROOT), ROOT / "SECURITY.md", *GENERATED]


def test_every_rule_finds_what_it_is_about():
    cases = {
        "Empty": "Simply run it.",
        "Exclamation": "It works! Now train.",
        "Latin": "Sizes, e.g. base.",
        "Personified": "The encoder says no.",
        "Private": "The run goes\non.",
        "Words": "In order to train, utilize it.",
    }
    assert sorted(cases) == vale_rules.rules()
    for rule, text in cases.items():
        assert vale_rules.found_in(" ".join(text.split()), [rule])
    clean = "Give `goes on` to it. See [the run](a.md). Use != here."
    assert not vale_rules.found_in(vale_rules.prose(clean), list(cases))
    assert len(vale_rules.patterns("Words")) > 15


@pytest.mark.long
def test_pages_keep_the_rules():
    """One private phrase once in a page is found."""
    wrong = [
        (path.name, words)
        for path in PAGES
        if (
            words := vale_rules.found_in(
                vale_rules.prose(path.read_text(encoding="utf-8")),
                vale_rules.rules(),
            )
        )
    ]
    assert not wrong


@pytest.mark.skipif(not shutil.which("vale"), reason="needs Vale")
def test_vale_itself_finds_nothing():
    config = ROOT / "scripts/pages/vale/vale.ini"
    done = subprocess.run(
        ["vale", f"--config={config}", *map(str, PAGES)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
