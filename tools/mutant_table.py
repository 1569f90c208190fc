"""The table of planted mistakes: read, checked, planted.

`tools/mutants.toml` holds one entry per mistake:

    [[mutant]]
    id = "mask-polarity"
    file = "modeling/attention/masks.py"
    old = 'tf.equal(tf.cast(input_mask, tf.int32), 0)'
    new = 'tf.equal(tf.cast(input_mask, tf.int32), 1)'
    why = "padding is seen and text is not"
    tests = ["tests/modeling/properties/test_leaks.py"]   # in place of [tests]
    equivalent = "..."                         # no test can tell: the reason

`[tests]` maps a source file, or a folder that ends in a slash, to the tests
that run first (the longest match counts), `[wide]` to what runs when those
found nothing. Texts, not line numbers, say where: they outlive a refactor.
"""

import ast
import dataclasses
import hashlib
import pathlib
import tomllib
from collections.abc import Sequence

from common.errors import UserError

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = pathlib.Path(__file__).with_suffix("").with_name("mutants.toml")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
      id: short name, unique.
      file: the source, from the root of the repository.
      old: text that occurs in it exactly once.
      new: what stands there instead.
      why: what is wrong then.
      tests: test files, or `file::name`, to run first.
      wide: what else may find it.
      equivalent: why no test can find it; "" = one must.
    """

    id: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    wide: tuple[str, ...]
    equivalent: str = ""

    def problem(self, root: pathlib.Path) -> str | None:
        """What is wrong with the entry for the sources in `root`, or None."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        text = path.read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1:
            return f"`old` must occur once in {self.file}, found {count} times"
        if self.old == self.new:
            return "`old` and `new` are equal"
        try:
            ast.parse(self.planted(text))
        except SyntaxError as e:
            return f"{self.file} does not parse with it: {e}"
        if not self.tests:  # pytest would run every test until time is over
            return f"no tests run first for {self.file}: name them in [tests]"
        for test in (*self.tests, *self.wide):
            name, _, function = test.partition("::")
            if not (root / name).exists():
                return f"its tests name {name}, which does not exist"
            if function and f"def {function}(" not in (root / name).read_text():
                return f"{name} holds no {function}"
        return None

    def planted(self, text: str) -> str:
        """The source with the mistake."""
        return text.replace(self.old, self.new)


def load(path: pathlib.Path = TABLE) -> list[Mutant]:
    """Reads the table.

    Raises:
      UserError: an entry lacks a key, has an unknown one, or uses an id twice.
    """
    with open(path, "rb") as f:
        table = tomllib.load(f)
    names = {field.name for field in dataclasses.fields(Mutant)}
    mutants: dict[str, Mutant] = {}
    for entry in table["mutant"]:
        entry = {
            "tests": _longest(table["tests"], entry["file"]),
            "wide": _longest(table["wide"], entry["file"]),
        } | entry
        missing = names - {"equivalent"} - set(entry)
        if missing or set(entry) - names:
            raise UserError(
                f"{path}: {entry.get('id')!r} lacks {sorted(missing)}, or has "
                f"unknown keys: {sorted(set(entry) - names)}"
            )
        for name in ("tests", "wide"):
            entry[name] = tuple(entry[name])
        mutant = Mutant(**entry)
        if mutant.id in mutants:
            raise UserError(f"{path}: the id {mutant.id!r} is there twice")
        mutants[mutant.id] = mutant
    return list(mutants.values())


def _longest(mapping: dict[str, list[str]], file: str) -> list[str]:
    """The entry of the file or of the innermost folder that has one."""
    fits = [k for k in mapping if file == k or (k[-1:] == "/" and k in file)]
    fits = [k for k in fits if file.startswith(k)]
    return mapping[max(fits, key=len)] if fits else []


def fingerprint(
    mutant: Mutant, root: pathlib.Path, tests: list[str], more: Sequence = ()
) -> str:
    """Changes with the mistake, its source, the given test files and `more`."""
    digest = hashlib.sha256()
    parts = [mutant.file, mutant.old, mutant.new, *more]
    parts += [(root / mutant.file).read_text(encoding="utf-8")]
    parts += [(root / test).read_text(encoding="utf-8") for test in tests]
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]
