"""`--help` shows what most people need."""

import ast
import functools
import json
import pathlib
import re
import subprocess
import sys

from flags import help_text
from xlnet_tf2 import commands

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def listing() -> dict[str, dict[str, dict]]:
    """Command -> flag -> what it is, in a process of its own."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "flags_page.py", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_help_sends_readers_to_pages_and_not_into_the_code():
    for module in commands.modules().values():
        path = ROOT / f"{module.replace('.', '/')}.py"
        if not path.exists():
            path = path.with_suffix("") / "__main__.py"
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert not re.findall(r"`[a-z]+\.[a-z_]+\.\w+", text), module


def test_what_commands_share_is_not_said_to_be_of_some():
    for kind in ("classifier", "race", "ranking", "multitask", "tagger"):
        shared = listing()[f"run_{kind}"]["do_train"]
        assert shared["subject"] == "All fine-tuning commands"


def test_the_default_of_a_threshold_is_what_an_evaluation_found():
    of_squad = listing()["run_squad"]["null_score_diff_threshold"]
    assert "the best one on dev" in of_squad["help"]


def test_help_shows_what_most_people_need():
    for command, flags in listing().items():
        often = [name for name, flag in flags.items() if flag["often"]]
        if len(flags) > help_text.MANY:
            assert 5 <= len(often) <= help_text.MANY, (command, often)


def test_help_begins_with_what_a_command_has_alone():
    """And not with the rules of text, which many commands share."""
    for command, flags in listing().items():
        subjects = list(dict.fromkeys(f["subject"] for f in flags.values()))
        if help_text.OWN in subjects:
            assert subjects[0] == help_text.OWN, command
    first = next(iter(listing()["run_classifier"].values()))
    assert first["subject"] == "The task's own data"
