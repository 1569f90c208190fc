"""Packages come from folders, addresses or clients, and always by their hash."""

import subprocess

import pytest

from common.errors import UserError
from data.corpus.registry import downloads
from data.corpus.registry.source_table import Package
from tests.data.corpus.registry import packages


@pytest.fixture
def there(tmp_path):
    """A folder with one package, and what a table says of it."""
    folder = tmp_path / "there"
    folder.mkdir()
    path = packages.debian(folder / "x_1.0_all.deb", {"a.txt": b"text"})
    return folder, package_of(path)


def package_of(path, **more):
    values = {
        "name": "x",
        "registry": "debian",
        "package": "x",
        "version": "1.0",
        "file": f"pool/main/x/{path.name}",
        "sha256": downloads.files.sha256_of_file(str(path)),
        "licence": "MIT",
    }
    return Package(**(values | more))


def client(monkeypatch, name, data):
    """Replaces the clients; gives the commands that were run."""
    commands = []

    def run(command, cwd, **_):
        commands.append(command)
        folder = next(
            (c[7:] for c in command if c.startswith("--dest=")), str(cwd)
        )
        if data is not None:
            with open(f"{folder}/{name}", "wb") as f:
                f.write(data)
        code = 0 if data is not None else 100
        return subprocess.CompletedProcess(command, code, "", "E: no such")

    monkeypatch.setattr(downloads.subprocess, "run", run)
    monkeypatch.setattr(downloads.shutil, "which", lambda name: f"/bin/{name}")
    return commands


def test_a_folder_and_the_cache_of_an_earlier_run(there, tmp_path):
    folder, package = there
    cache = tmp_path / "cache"
    path = downloads.fetch(package, str(cache), [str(folder)])
    wanted = (folder / "x_1.0_all.deb").read_bytes()
    assert (cache / "x_1.0_all.deb").read_bytes() == wanted
    assert downloads.fetch(package, str(cache), []) == path
    (cache / "x_1.0_all.deb").write_bytes(wanted[:-1])
    downloads.fetch(package, str(cache), [str(folder)])
    assert (cache / "x_1.0_all.deb").read_bytes() == wanted


@pytest.mark.long
def test_an_address_with_and_without_the_folders_of_a_mirror(there, tmp_path):
    folder, package = there
    with packages.served(folder) as (address, asked):
        downloads.fetch(package, str(tmp_path / "flat"), [address])
    assert asked == ["/x_1.0_all.deb"]
    place = folder / "mirror" / "pool" / "main" / "x"
    place.mkdir(parents=True)
    (folder / "x_1.0_all.deb").rename(place / "x_1.0_all.deb")
    with packages.served(folder / "mirror") as (address, asked):
        links = [str(tmp_path / "nothing"), address + "/"]
        path = downloads.fetch(package, str(tmp_path / "mirrored"), links)
    assert asked == ["/x_1.0_all.deb", "/pool/main/x/x_1.0_all.deb"]
    assert downloads.files.sha256_of_file(path) == package.sha256


def test_other_bytes_are_refused_and_leave_nothing(there, tmp_path):
    folder, package = there
    (folder / "x_1.0_all.deb").write_bytes(b"other")
    with pytest.raises(UserError, match=f"has the SHA-256.*{package.sha256}"):
        downloads.fetch(package, str(tmp_path / "cache"), [str(folder)])
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_clients_of_the_registries_are_asked(there, tmp_path, monkeypatch):
    folder, package = there
    data = (folder / "x_1.0_all.deb").read_bytes()
    commands = client(monkeypatch, "x_1%3a1.0_all.deb", data)
    path = downloads.fetch(package, str(tmp_path / "cache"), [])
    assert downloads.files.sha256_of_file(path) == package.sha256
    assert commands[0][0] == "apt-get" and commands[0][-1] == "x=1.0"
    wheel = packages.wheel(folder / "y-1.0-py3-none-any.whl", {"a": b"b"})
    commands = client(monkeypatch, wheel.name, wheel.read_bytes())
    about = package_of(wheel, registry="pypi", file=wheel.name, package="y")
    downloads.fetch(about, str(tmp_path / "cache"), [])
    assert commands[0][2:4] == ["pip", "download"]
    assert "--only-binary=:all:" in commands[0], "no build of it is run"
    assert "--no-deps" in commands[0] and commands[0][-1] == "y==1.0"
    names = sorted(p.name for p in (tmp_path / "cache").iterdir())
    assert names == ["x_1.0_all.deb", wheel.name]


def test_a_registry_without_the_version_is_named(there, tmp_path, monkeypatch):
    _, package = there
    client(monkeypatch, "", None)
    with pytest.raises(UserError, match="x 1.0 cannot be had.*E: no such"):
        downloads.fetch(package, str(tmp_path / "cache"), [])
    monkeypatch.setattr(downloads.shutil, "which", lambda name: None)
    with pytest.raises(UserError, match="no apt-get; give --find_links"):
        downloads.fetch(package, str(tmp_path / "cache"), [])
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_address_that_cannot_be(there, tmp_path):
    _, package = there
    with pytest.raises(UserError, match="--find_links: wanted a folder"):
        downloads.fetch(package, str(tmp_path), ["ftp://127.0.0.1"])
    with packages.served(tmp_path) as (address, _):
        pass  # nobody listens there now
    with pytest.raises(UserError, match="run again to resume"):
        downloads.fetch(package, str(tmp_path / "cache"), [address])
