"""The table of sources says all that it must, and slips in it are named."""

import re

import pytest

from common.errors import UserError
from data.corpus.registry import plain_text, source_table

GOOD = {
    "registry": "pypi",
    "package": "x",
    "version": "1",
    "file": "x-1.whl",
    "sha256": "0" * 64,
    "licence": "MIT",
}


def write(tmp_path, name="x", **values):
    rows = [f"{k} = {v!r}" for k, v in values.items() if v is not None]
    path = tmp_path / "table.toml"
    path.write_text("\n".join([f"['{name}']", *rows]))
    return str(path)


def test_the_projects_own_table():
    packages = source_table.read(source_table.TABLE)
    assert len(packages) >= 20
    for package in packages:
        endings = {"debian": "_all.deb", "pypi": "-none-any.whl"}
        assert package.file.endswith(endings[package.registry]), package
        # Free ones alone: what Debian keeps apart stays out.
        assert not re.search("non-?free", package.file), package
        assert not re.search(r"\b(NC|ND|Proprietary)\b", package.licence), (
            package
        )
    for field in ("file", "sha256"):
        assert len({getattr(p, field) for p in packages}) == len(packages)


def test_sources_by_name_in_the_order_of_the_table(tmp_path):
    path = tmp_path / "table.toml"
    text = ""
    for name in "abc":
        rows = [f"{k} = {v!r}" for k, v in GOOD.items()]
        text += "\n".join([f"[{name}]", *rows, ""])
    path.write_text(text)
    found = source_table.read(str(path), ("c", "a"))
    assert [p.name for p in found] == ["a", "c"]
    with pytest.raises(UserError, match="has no d, e; wanted some of a, b, c"):
        source_table.read(str(path), ("e", "d", "a"))


def test_members_that_are_read(tmp_path):
    path = write(tmp_path, **GOOD, include="/doc/", exclude="/_sources/")
    (package,) = source_table.read(path)
    names = ("x/doc/a.rst", "x/doc/_sources/a.rst", "x/a.rst")
    assert [package.wants(name) for name in names] == [True, False, False]
    assert all(plain_text.kind(name) for name in names)


@pytest.mark.parametrize(
    "change, message",
    (
        ({"licence": None}, "wanted the keys"),
        ({"colour": "red"}, "wanted the keys"),
        ({"version": 1}, "version cannot be 1"),
        ({"weight": "2"}, "weight cannot be '2'"),
        ({"weight": 0}, "weight cannot be 0"),
        ({"licence": ""}, "licence cannot be ''"),
        ({"registry": "npm"}, "registry cannot be 'npm'"),
        ({"sha256": "0" * 63}, "sha256 cannot be"),
        ({"file": "../x.whl"}, "file cannot be"),
        ({"file": "/x.whl"}, "file cannot be"),
        ({"include": "("}, "include: "),
        ({"name": "../x"}, "name cannot be"),
    ),
)
def test_a_slip_is_named(tmp_path, change, message):
    path = write(tmp_path, **(GOOD | change))
    with pytest.raises(UserError, match=re.escape(message)) as e:
        source_table.read(path)
    assert path in str(e.value)


def test_a_file_that_is_no_toml(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text("[x\n")
    with pytest.raises(UserError, match="wanted TOML"):
        source_table.read(str(path))
