"""The page of flags is current; a flag has a row for each of its meanings."""

import subprocess
import sys

from scripts import flags_page
from tests.conftest import ROOT

PRINT_PAGE = "from scripts import flags_page; print(flags_page.page(), end='')"


def test_the_page_of_flags_is_current():
    done = subprocess.run(
        [sys.executable, "-c", PRINT_PAGE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    page = (ROOT / "docs/reference/flags.md").read_text(encoding="utf-8")
    assert done.stdout == page, "run scripts/flags_page.py"


def test_no_command_loads_tensorflow_for_its_help():
    code = (
        "import sys; from scripts import flags_page; flags_page.listing(); "
        "print('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def flag(default, text, subject="Model", choices=()):
    return {
        "subject": subject,
        "default": default,
        "choices": list(choices),
        "help": text,
    }


def test_a_flag_has_a_row_for_each_meaning_and_default(monkeypatch):
    planted = {
        "run_a": {
            "steps": flag(5, "Steps."),
            "kind": flag("x", "Kind.", choices=("x", "")),
        },
        "data.b": {
            "steps": flag(7, "Steps."),
            "names": flag(["u", "v"], "One|two\nof these.", "Text"),
        },
        "data.c": {"steps": flag(7, "Steps."), "none": flag(None, "No.")},
    }
    monkeypatch.setattr(flags_page, "listing", lambda: planted)
    monkeypatch.setattr(flags_page.commands, "modules", lambda: planted)
    text = flags_page.page()
    assert "\n4 names in 3 commands.\n" in text
    names, model, other = text.split("\n## ")[1:]
    assert "| **K** | [`kind`](#kind) |\n" in names
    assert "| **N** | [`names`](#names), [`none`](#none) |\n" in names
    assert model.splitlines() == [
        "Model",
        "",
        "| flag | default | meaning |",
        "|---|---|---|",
        "| `--kind`<a id=\"kind\"></a> | `x` of x, '' | Kind. (`run_a`) |",
        '| `--none`<a id="none"></a> |  | No. (`data.c`) |',
        '| `--steps`<a id="steps"></a> | `5` | Steps. (`run_a`) |',
        "| `--steps` | `7` | Steps. (`data.b`, `data.c`) |",
    ]
    # Flags of the same commands alone name these once.
    row, _, of = other.splitlines()[-3:]
    assert row == (
        '| `--names`<a id="names"></a> | `u,v` | One\\|two of these. |'
    )
    assert of == "Of: `data.b`."
