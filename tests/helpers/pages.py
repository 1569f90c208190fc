"""Commands that the pages show, and whether their flags exist and parse."""

import argparse
import dataclasses
import importlib
import json
import os
import re
import runpy
import shlex
import sys

from tests.conftest import ROOT

PROGRAMS = r"(?:python|bash|pip|docker|git|xlnet-[a-z-]+)"
_LINE = re.compile(rf"\s*(?:\$ )?((?:[A-Z_]+=\S+ )*{PROGRAMS} .*)")
_COMMENT = re.compile(r"\s+#.*$")


@dataclasses.dataclass(frozen=True)
class Command:
    """One command of a page.

    Attributes:
      page: "docs/tutorials/install.md".
      text: on one line, without its comment.
    """

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """As a shell gives them to the program; redirections left out."""
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", self.text)  # its default
        text = re.sub(r"=\$[a-z]\w*", "=1", text)  # of a loop
        text = re.split(r"\s(?:\||&&|>|2>)\s", text)[0]
        words = [w for w in shlex.split(text) if w != "..."]
        while re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        return words

    @property
    def program(self) -> str:
        """`data.inspect`, `run_lm`, `scripts/quickstart.sh`, `pip`."""
        words = self.words
        if words[:2] == ["python", "-m"]:
            return words[2]
        if words[0] in ("python", "bash"):
            return words[1].removesuffix(".py")
        return words[0]

    @property
    def arguments(self) -> list[str]:
        """What follows the program."""
        return self.words[3 if self.words[:2] == ["python", "-m"] else 2 :]


def pages() -> list:
    """All pages, README first."""
    found = sorted(
        p for p in (ROOT / "docs").rglob("*.md") if "measured" not in p.parts
    )
    front = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
    return [*(ROOT / name for name in front), *found]


def commands_of(page) -> list[Command]:
    """In blocks of code, and in the running text where they have arguments."""
    name = page.relative_to(ROOT).as_posix()
    return commands_in(name, page.read_text(encoding="utf-8"))


def commands_in(name: str, text: str) -> list[Command]:
    """Those of the text of a page, or of a part of it."""
    text = re.sub(r" *\\\n\s*", " ", text)
    blocks = [m for line in text.splitlines() if (m := _block_line(line))]
    running = re.sub(r"```.*?```", "", text, flags=re.S)
    running = re.sub(r"(?<!\n)\n(?![\n|])", " ", running)
    spans = [
        span
        for span in re.findall(r"`([^`]+)`", running)
        if re.fullmatch(rf"{PROGRAMS} \S.*", span)
    ]
    return [Command(name, text) for text in [*blocks, *spans]]


def _block_line(line: str) -> str | None:
    found = _LINE.fullmatch(line)
    return _COMMENT.sub("", found[1]).strip() if found else None


def parse(program: str, all_arguments: list[list[str]]) -> list[str]:
    """What is wrong with each list of arguments of a command; "" = right.

    Runs the module up to where it parses. Call it in a process of its own:
    flags are defined for good. What is required may be missing.
    """
    from absl import app as absl_app
    from absl import flags

    from flags import app

    found = []

    def with_absl(*_, **__):
        for name in flags.FLAGS:
            flags.FLAGS[name].validators.clear()
        for arguments in all_arguments:
            flags.FLAGS.unparse_flags()
            try:
                rest = flags.FLAGS([program, *arguments])
                found.append(f"surplus {rest[1:]}" if rest[1:] else "")
            except flags.Error as e:
                found.append("" if "other than None" in str(e) else str(e))
        raise _Parsed

    def with_argparse(parser, *_, **__):
        parser.exit_on_error = False
        for action in parser._actions:
            action.required = False
        for arguments in all_arguments:
            try:
                _, rest = parser.parse_known_args(arguments)
                found.append(f"unknown {rest}" if rest else "")
            except (argparse.ArgumentError, SystemExit) as e:
                found.append(str(e))
        raise _Parsed

    app.run = absl_app.run = with_absl
    argparse.ArgumentParser.parse_args = with_argparse
    sys.argv = [program]
    try:
        if "/" in program:
            runpy.run_path(str(ROOT / f"{program}.py"), run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__")
    except _Parsed:
        pass
    return found


class _Parsed(Exception):
    """Ends a command where it parses its flags."""


def source_of(program: str):
    """The file of a Python program of this project, or None."""
    path = ROOT / program.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__main__.py"):
        if file.exists():
            return file
    return None


def _preload() -> None:
    """Loads what most programs import; no flag is defined by that."""
    for path in (ROOT / "flags").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        importlib.import_module(name.removesuffix(".__init__"))


def main() -> None:
    """Standard input: {program: lists of arguments} -> what `parse` finds."""
    _preload()
    for program, all_arguments in json.load(sys.stdin).items():
        read, write = os.pipe()
        if not os.fork():
            with os.fdopen(write, "w") as f:
                json.dump(parse(program, all_arguments), f)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as f:
            print(json.dumps([program, json.loads(f.read() or "[]")]))
        os.wait()


if __name__ == "__main__":
    main()
