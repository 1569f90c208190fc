"""Writes docs/reference/troubleshooting.md: every message of a command, by its family.

python scripts/messages_page.py

Messages are those of `UserError` and its kinds, of `common.checks.require` and of
`flags.faults`; causes and cures of the families, and what has no message, are in
scripts/messages.toml.
"""

import argparse
import ast
import collections
import functools
import pathlib
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from flags import faults  # noqa: E402

PAGE = ROOT / "docs/reference/troubleshooting.md"
FOLDERS = ("common", "data", "flags", "modeling", "serving", "training")
_KINDS = ("UserError", "CorpusError")
_VALUE = "…"
_SHORTEST = 12  # letters of a message besides its values
_HEAD = """# Troubleshooting

Made by `python scripts/messages_page.py` from the code; do not edit. Search this page
for the words of your message: … stands for a name or a value. Every command ends with
one line `error: ...` and status 1. A stack trace is a fault of the program:
report it ([security](../../SECURITY.md) or the list of issues).
"""


def families() -> list[dict]:
    """Title, paths, cause and cure, in the order of the page."""
    return _table()["family"]


def _table() -> dict:
    path = ROOT / "scripts" / "messages.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def family_of(path: str, found: list[dict]) -> str | None:
    """Title of the family with the longest path that begins this one."""
    fitting = [
        (len(prefix), family["title"])
        for family in found
        for prefix in family["paths"]
        if path == prefix or path.startswith(f"{prefix}/")
    ]
    return max(fitting)[1] if fitting else None


@functools.cache
def messages() -> dict[str, list[str]]:
    """File -> its messages, in the order of the file."""
    texts_by_file = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = [
                text
                for node in ast.walk(tree)
                if (said := _message(node)) and (text := _text(said))
            ]
            if texts:
                texts_by_file[path.relative_to(ROOT).as_posix()] = texts
    return texts_by_file


def _message(node: ast.AST) -> ast.expr | None:
    """What a node says to the user; None where it says nothing."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in _KINDS or ast.unparse(node.func) == "super().__init__":
        return node.args[0]  # kinds of their own say theirs to the base
    # (condition, message); another `require` asks an encoder.
    return node.args[1] if name == "require" and len(node.args) == 2 else None


def _text(node: ast.expr) -> str:
    """A message with its values left out; "" = it says too little."""
    text = _parts(node)
    while _VALUE * 2 in text:
        text = text.replace(_VALUE * 2, _VALUE)
    letters = sum(c.isalpha() for c in text)
    return " ".join(text.split()) if letters >= _SHORTEST else ""


def _parts(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_parts, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _parts(node.left) + _parts(node.right)
    if isinstance(node, ast.IfExp):
        return _parts(node.body)
    return _VALUE


def page() -> str:
    """The text of docs/reference/troubleshooting.md."""
    known = families()
    texts = collections.defaultdict(set)
    for path, found_texts in messages().items():
        texts[family_of(path, known)].update(found_texts)
    parts = [_HEAD, "## Without a message\n", _symptoms()]
    parts += ["\n## Disks and the system\n", _system_table()]
    for family in known:
        lines = sorted(texts[family["title"]], key=_sorted_by)
        parts += [
            f"\n## {family['title']}\n",
            f"**Cause.** {family['cause']}",
            f"\n**Cure.** {family['cure']}\n",
            *(f"- `{_code(line)}`" for line in lines),
        ]
    return "\n".join(parts) + "\n"


def _sorted_by(line: str) -> tuple[str, str]:
    # The line itself, too: equal beginnings have an order of their own.
    return line.lstrip(f"{_VALUE}-:'\"` ").casefold(), line


def _code(line: str) -> str:
    return line.replace("`", "'")


def _symptoms() -> str:
    rows = [f"| {what} | {fix} |" for what, fix in _table()["symptoms"].items()]
    return "\n".join(["| what you see | what to do |", "|---|---|", *rows])


def _system_table() -> str:
    rows = sorted(set(faults.SYSTEM.values()))
    lines = [f"| {what} | {fix} |" for what, fix in rows]
    return "\n".join(["| message | cure |", "|---|---|", *lines])


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
