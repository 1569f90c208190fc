"""Recipe pages have the settings with which their cards' models were made."""

import re
import tomllib

import pytest

from studies.language import lm_baselines
from tests.conftest import ROOT
from tests.helpers import pages

FOLDERS = ("docs/guides/recipes", "docs/explanation/cards")
FAMILIES = ("albert", "bert", "modernbert", "transformer_xl", "xlnet")
# Folders are the reader's, and these say how a run reports.
NOT_COMPARED = {"command", "do_export", "init_checkpoint", "input_glob"}
NOT_COMPARED |= {"iterations", "progress", "spiece_model_file"}


def command_of(family: str, text: str) -> dict[str, str]:
    """Flags of the one command of a recipe page that has a text."""
    page = ROOT / FOLDERS[0] / f"{family}.md"
    found = [c for c in pages.commands_of(page) if text in c.text]
    assert len(found) == 1, (family, text)
    return as_flags(found[0].arguments)


def pages_text(family: str) -> str:
    """Of a recipe."""
    return (ROOT / FOLDERS[0] / f"{family}.md").read_text(encoding="utf-8")


def as_flags(words: list[str]) -> dict[str, str]:
    """`--a=1 --nob --c` -> a, b and c; folders are left out."""
    found = {}
    for word in words:
        name, _, value = word.removeprefix("--").partition("=")
        if name.startswith("no") and not value:
            name, value = name[2:], "False"
        if not name.endswith("_dir") and name not in NOT_COMPARED:
            found[name] = value or "True"
    return found


def same(flags: dict[str, str], options: dict) -> None:
    """The flags of a page are those of a study."""
    found = {name: _number(value) for name, value in flags.items()}
    assert found == {
        name: _number(str(value))
        for name, value in options.items()
        if not name.endswith("_dir") and name not in NOT_COMPARED
    }


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def test_every_family_has_a_card_and_a_recipe():
    for folder in FOLDERS:
        found = sorted(p.stem for p in (ROOT / folder).glob("*.md"))
        assert found == sorted(FAMILIES)
    for family in FAMILIES:
        text = (ROOT / FOLDERS[1] / f"{family}.md").read_text(encoding="utf-8")
        assert "<!-- measured: " in text and f"recipes/{family}.md" in text
        assert "\n## What it must not be used for\n\n- " in text


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert"])
def test_an_encoders_recipe_is_that_of_the_study(family):
    path = ROOT / "studies/options/encoders.toml"
    options = tomllib.loads(path.read_text(encoding="utf-8"))
    row = next(r for r in options["rows"] if r["name"] == family)
    kinds = (
        ("create_pretraining_data", options["records"]),
        ("run_pretrain.py --", options["pretrain"] | row["pretrain"]),
        ("run_classifier.py --task", options["tasks"]["sst-2"]),
    )
    for text, wanted in kinds:
        same(command_of(family, text), wanted)


def test_the_language_model_is_that_of_the_study():
    flags = command_of("transformer_xl", "--model_dir=wt2 --cutoffs")
    flags |= {"eval_batch_size": "8"}
    more = {"train_steps": 9350, "save_steps": 200, "max_save": 1}
    same(flags, lm_baselines.RECIPES["word/ours"] | more)
    table = ROOT / "docs/measured/tables/memory_studies.tsv"
    assert "**ours**\t8,348,416\t9,350\t" in table.read_text(encoding="utf-8")
    assert "eval_batch_size=8" in pages_text("transformer_xl")


def test_xlnets_records_are_those_of_the_script():
    script = (ROOT / "scripts/results.sh").read_text(encoding="utf-8")
    script = " ".join(script.replace("\\\n", " ").split())
    (default,) = re.findall(r"\$\{RECIPE:=(\w+)\}", script)
    script = script.replace('"$RECIPE"', default)
    for text in ("create_pretraining_data", "run_pretrain.py --"):
        for name, value in command_of("xlnet", text).items():
            flag = f"--{name}" if value == "True" else f"--{name}={value}"
            assert f" {flag} " in script, flag
