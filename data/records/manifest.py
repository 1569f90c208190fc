"""`manifest.json`: the contract between a builder and its readers.

Each kind of records has a `Manifest` of its own with more fields; here is what
all share.
"""

import dataclasses
import hashlib
import json
import os
from typing import Any, ClassVar, NoReturn, Self

from common import files
from common.errors import UserError

FILE_NAME = "manifest.json"
# Manifests without `kind`, as all were once, are of this one.
_FIRST_KIND = "pretraining"


def check_name(name: str) -> None:
    """Raises ValueError: a file of a data directory would lie elsewhere."""
    if not name or name in (".", "..") or os.path.basename(name) != name:
        raise ValueError(f"wanted the name of a file, found {name[:40]!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordFile:
    """One file of records."""

    name: str
    block: int
    split: str
    bytes: int
    sha256: str

    def __post_init__(self):
        """Raises ValueError: a field is no such value, or the name a path."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            wrong = not isinstance(value, field.type)
            if wrong or (field.type is int and value < 0):
                raise ValueError(
                    f"{field.name}: wanted {field.type.__name__}, found "
                    f"{str(value)[:40]!r}"
                )
        check_name(self.name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a data directory holds."""

    KIND: ClassVar[str]
    COMMAND: ClassVar[str]
    FORMAT_VERSION: ClassVar[int]
    READ_VERSIONS: ClassVar[tuple[int, ...]]

    data_dir: str
    options: dict[str, Any]  # the builder's identity
    vocab_size: int
    versions: dict[str, str]
    counts: dict[str, Any]
    files: tuple[RecordFile, ...]
    text_sha256: tuple[str, ...] = ()  # of the text of each block
    format_version: int

    def sizes(self) -> list[tuple[str, int]]:
        """Names and bytes of all files that must be there."""
        return [(f.name, f.bytes) for f in self.files]

    def pack(self, value: dict[str, Any]) -> dict[str, Any]:
        """The fields as JSON values; `unpack` reads them."""
        return value | {"files": [dataclasses.asdict(f) for f in self.files]}

    @classmethod
    def unpack(cls, value: dict[str, Any]) -> dict[str, Any]:
        """The constructor's arguments from JSON values.

        KeyError, TypeError, ValueError: they are not as `pack` gave them.
        """
        return value | {"text_sha256": tuple(value.get("text_sha256", ()))}

    def check(self, path: str) -> None:
        """The manifest's own sums and ranges."""

    def to_json(self) -> dict:
        """What `manifest.json` holds."""
        value = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self)
        }
        del value["data_dir"]
        value["format_version"] = self.FORMAT_VERSION
        value = self.pack(value)
        if self.KIND != _FIRST_KIND:
            value["kind"] = self.KIND
        return value | {"checksums": _checksums(value)}

    def write(self) -> None:
        """Writes the file, atomically."""
        path = os.path.join(self.data_dir, FILE_NAME)
        files.write_json(path, self.to_json())

    def require(self, **wanted) -> None:
        """UserError names all fields that differ, wanted and found.

        `wanted`: manifest properties or option names; None is not compared.
        """
        wrong = []
        for name, value in wanted.items():
            stored = getattr(self, name, self.options.get(name))
            if value is not None and value != stored:
                wrong.append(f"{name}: wanted {value}, found {stored}")
        if wrong:
            raise UserError(
                f"{os.path.join(self.data_dir, FILE_NAME)} does not fit: "
                f"{'; '.join(wrong)}; leave the flags out to take the "
                "data's values, or build the data again"
            )

    def verify_sizes(self) -> None:
        """UserError names the first file that is missing or of another size."""
        for name, wanted in self.sizes():
            path = os.path.join(self.data_dir, name)
            try:
                size = files.size(path)
            except OSError as e:
                raise UserError(
                    f"{path} is missing, {FILE_NAME} lists it; run the "
                    "builder again in an empty folder"
                ) from e
            if size != wanted:
                raise UserError(
                    f"{path}: wanted {wanted} bytes as in {FILE_NAME}, "
                    f"found {size}; the file is damaged or of another "
                    "build: build the data again"
                )

    def refuse_record(self, name: str, record: int, what: str) -> NoReturn:
        """Raises the UserError of a record that the build did not write."""
        raise UserError(
            f"{os.path.join(self.data_dir, name)}: record {record}: {what}; "
            "the file is damaged or of another build: build the data again"
        )

    def check_content(self, name: str, wanted: str) -> None:
        """UserError: the SHA-256 of a file is not the one that was written."""
        path = os.path.join(self.data_dir, name)
        found = files.sha256_of_file(path)
        if found != wanted:
            raise UserError(
                f"{path}: wanted SHA-256 {wanted}, found {found}; build the "
                "data again"
            )

    @classmethod
    def load(cls, data_dir: str, verify: bool = True) -> Self:
        """Reads and checks the manifest of a data directory.

        Raises UserError: no manifest, another kind or version, a field that is
        missing or wrong, a file that is missing or of another size.
        """
        path = os.path.join(data_dir, FILE_NAME)
        value = _read(data_dir, cls.COMMAND)
        kind = value.get("kind", _FIRST_KIND)
        if kind != cls.KIND:
            raise UserError(
                f"{path}: wanted {cls.KIND} data, found {kind} data; build "
                f"them with `{cls.COMMAND}`"
            )
        version = value.get("format_version")
        if version not in cls.READ_VERSIONS:
            raise UserError(
                f"{path}: wanted format_version {cls.FORMAT_VERSION}, found "
                f"{version}; build the data again"
            )
        _check_fields(value, value.pop("checksums", None), path)
        value.pop("kind", None)
        try:
            manifest = cls(data_dir=data_dir, **cls.unpack(value))
        except (KeyError, TypeError, ValueError) as e:
            raise UserError(
                f"{path}: a field is missing or wrong: {e}; build the data "
                "again"
            ) from e
        manifest.check(path)
        if verify:
            manifest.verify_sizes()
        return manifest


def kind_of(data_dir: str) -> str:
    """The `KIND` of a data directory's manifest; UserError: there is none."""
    value = _read(data_dir, "python -m data.create_pretraining_data")
    return str(value.get("kind", _FIRST_KIND))


def _read(data_dir: str, command: str) -> dict[str, Any]:
    hint = f"no finished data there; build them with `{command}`"
    return files.read_json_object(os.path.join(data_dir, FILE_NAME), hint)


def _checksums(value: dict) -> dict[str, str]:
    """A short checksum of every field; of `options`, of each option."""
    flat = {k: v for k, v in value.items() if k != "options"}
    options = value.get("options")
    if isinstance(options, dict):
        flat |= {f"options.{k}": v for k, v in options.items()}
    return {name: _checksum(field) for name, field in flat.items()}


def _checksum(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _check_fields(value: dict, wanted, path: str) -> None:
    """Names the field that was changed after the build."""
    checksums = _checksums(value)
    wanted = wanted if isinstance(wanted, dict) else {}
    wrong = sorted(
        k
        for k in checksums.keys() | wanted.keys()
        if checksums.get(k) != wanted.get(k)
    )
    if wrong:
        raise UserError(
            f"{path}: the field {wrong[0]} is not as it was written (its "
            "checksum differs); build the data again or restore the file"
        )
