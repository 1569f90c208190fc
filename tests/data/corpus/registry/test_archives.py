"""Members of packages come out as they went in, and bounds hold."""

import gzip
import io
import tarfile

import pytest

from common.errors import UserError
from data.corpus.registry import archives
from tests.data.corpus.registry import packages

MEMBERS = {
    "usr/doc/a.html": b"<p>one</p>",
    "usr/doc/b.txt.gz": gzip.compress(b"two"),
    "usr/bin/c": b"three",
}
WANTED = [("usr/doc/a.html", b"<p>one</p>"), ("usr/doc/b.txt", b"two")]


def is_documentation(name):
    return name.startswith("usr/doc")


def test_a_debian_package_a_wheel_and_a_source_archive(tmp_path):
    source = tmp_path / "x.tar.gz"
    source.write_bytes(gzip.compress(packages.tar(MEMBERS)))
    for path in (
        packages.debian(tmp_path / "x.deb", MEMBERS),
        packages.wheel(tmp_path / "x.whl", MEMBERS),
        source,
    ):
        found = list(archives.members(str(path), is_documentation))
        assert found == WANTED, path


def test_links_and_folders_are_no_members(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        folder = tarfile.TarInfo("folder.txt")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    (tmp_path / "x.tar").write_bytes(buffer.getvalue())
    found = archives.members(str(tmp_path / "x.tar"), lambda name: True)
    assert list(found) == []


def test_what_unpacks_to_too_much_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 1000)
    bomb = gzip.compress(b"0" * 1_000_000)
    path = packages.wheel(
        tmp_path / "x.whl", {"a.txt.gz": bomb, "b.txt": b"1" * 1000}
    )
    found = dict(archives.members(str(path), lambda name: True))
    assert found == {"a.txt": b"", "b.txt": b"1" * 1000}
    monkeypatch.setattr(archives, "LARGEST_PACKAGE", 1500)
    with pytest.raises(UserError, match="unpacks to more than"):
        list(archives.members(str(path), lambda name: True))


@pytest.mark.parametrize(
    "name, change, message",
    (
        ("x.whl", lambda data: data[:-30], "cannot be read as a package"),
        ("x.deb", lambda data: data[:-100], "cannot be read as a package"),
        ("x.deb", lambda data: b"?" + data, "found other bytes"),
        ("x.deb", lambda data: data[:150], "found no data.tar"),
        ("x.rpm", lambda data: data, "wanted a name that ends in"),
    ),
)
def test_a_damaged_package_is_refused_by_name(tmp_path, name, change, message):
    make = packages.wheel if name == "x.whl" else packages.debian
    path = make(tmp_path / name, MEMBERS)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=message) as e:
        list(archives.members(str(path), lambda name: True))
    assert str(path) in str(e.value)
