"""Writes docs/reference/flags.md: every flag of every command, from the fields.

python scripts/flags_page.py            # writes the page
python scripts/flags_page.py --json     # prints the flags per command
"""

import argparse
import collections
import json
import pathlib
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from absl import flags  # noqa: E402

from flags import app, flag_values, help_text  # noqa: E402
from xlnet_tf2 import commands  # noqa: E402

PAGE = ROOT / "docs/reference/flags.md"
_HEAD = """# Flags of all commands

Made by `python scripts/flags_page.py` from the fields of the options; do not
edit. A flag that several commands have stands once for each meaning or default.
"""


class _Defined(Exception):
    """Ends a command once its flags are defined."""


def listing() -> dict[str, dict[str, dict]]:
    """Command -> flag -> subject, type, default, choices and help."""
    run, app.run = app.run, _end
    try:
        return {name: _flags_of(name) for name in commands.modules().values()}
    finally:
        app.run = run


def _end(main) -> None:
    raise _Defined


def _flags_of(command: str) -> dict[str, dict]:
    values = flags.FLAGS
    before = set(values)
    try:
        runpy.run_module(command, run_name="__main__")
    except _Defined:
        pass
    flags_by_name = {}
    for title, module in help_text.groups():
        for flag in values.flags_by_module_dict()[module]:
            flags_by_name[flag.name] = {
                "subject": title,
                "type": flag.flag_type(),
                "default": flag.default,
                "choices": list(
                    getattr(flag.parser, "enum_values", None) or []
                ),
                "often": flag.name in flag_values.often,
                "help": flag.help.split(">: ", 1)[-1]
                if flag.flag_type() == "string enum"
                else flag.help,
            }
    for name in set(values) - before:
        delattr(values, name)
    for named in values.flags_by_module_dict().values():
        named.clear()
    return flags_by_name


def page() -> str:
    """The text of docs/reference/flags.md."""
    rows = collections.defaultdict(dict)  # subject -> row -> commands
    for command, by_name in listing().items():
        for name, flag in sorted(by_name.items()):
            row = (name, _shown(flag), flag["help"])
            rows[flag["subject"]].setdefault(row, []).append(command)
    total = len({row[0] for of in rows.values() for row in of})
    parts = [_HEAD, f"{total} names in {len(commands.modules())} commands."]
    new = sorted({row[0] for of in rows.values() for row in of})
    parts += ["\n## Names\n", *_index(new)]
    for subject in sorted(rows):
        parts += [f"\n## {subject}\n", "| flag | default | meaning |"]
        parts.append("|---|---|---|")
        named = {tuple(by_name) for by_name in rows[subject].values()}
        for (name, default, text), by_name in sorted(rows[subject].items()):
            where = "" if len(named) == 1 else f" ({_commands(by_name)})"
            anchor = ""
            if name in new:  # the first row of that name
                new.remove(name)
                anchor = f'<a id="{name}"></a>'
            cells = (f"`--{name}`{anchor}", default, _cell(text + where))
            parts.append(f"| {' | '.join(cells)} |")
        if len(named) == 1:
            parts.append(f"\nOf: {_commands(next(iter(named)))}.")
    return "\n".join(parts) + "\n"


def _index(names: list[str]) -> list[str]:
    """A table of the names by their first letter, each a link to its row."""
    letters = collections.defaultdict(list)
    for name in names:
        letters[name[0].upper()].append(f"[`{name}`](#{name})")
    return [
        "| letter | flags |",
        "|---|---|",
        *(f"| **{k}** | {', '.join(of)} |" for k, of in letters.items()),
    ]


def _commands(names) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _shown(flag: dict) -> str:
    default = flag["default"]
    text = "" if default in (None, "", []) else f"`{_plain(default)}`"
    if not flag["choices"]:
        return _cell(text)
    return _cell(
        f"{text} of {', '.join(c or chr(39) * 2 for c in flag['choices'])}".strip()
    )


def _plain(value) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Writes the page, or prints the listing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--json", action="store_true", help="print the flags per command"
    )
    if parser.parse_args().json:
        print(json.dumps(listing(), default=str))
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
