"""Files of packages, from a folder, an address or a registry; each by its hash.

The registries are asked by their own clients, `pip` and `apt-get`, which know
the mirrors that the user has set up. Neither installs or runs anything.
"""

import http.client
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence

from common import files
from common.errors import UserError
from data.corpus.registry.source_table import Package

LARGEST_FILE = 1 << 30  # bytes
_SECONDS = 60  # without an answer of an address
_CLIENT_SECONDS = 1800
_SHOWN = 400  # characters of what a client says


def fetch(package: Package, folder: str, find_links: Sequence[str]) -> str:
    """The path of a package's file below `folder`; there already = not fetched.

    The folders or addresses of `find_links` are looked through first, each with
    the file's name alone and with its folder on a mirror. Raises UserError:
    nowhere to be had, or other bytes than the table says.
    """
    path = os.path.join(folder, os.path.basename(package.file))
    if os.path.exists(path):
        if files.sha256_of_file(path) == package.sha256:
            return path
        os.remove(path)  # of another table, or damaged
    os.makedirs(folder, exist_ok=True)
    with files.atomic_path(path) as temporary:
        origin = _from_links(package, find_links, temporary)
        if not origin:
            origin = f"the {package.registry} registry"
            _from_registry(package, temporary)
        sha256 = files.sha256_of_file(temporary)
        if sha256 != package.sha256:
            raise UserError(
                f"{package.name}: {os.path.basename(package.file)} of {origin} "
                f"has the SHA-256 {sha256}, wanted {package.sha256}; it is not "
                "used"
            )
    return path


def _from_links(
    package: Package, find_links: Sequence[str], target: str
) -> str:
    """Where the file was found, "" = nowhere."""
    for link in find_links:
        for name in dict.fromkeys(
            (os.path.basename(package.file), package.file)
        ):
            if not files.is_remote(link):
                path = os.path.join(link, name)
                if os.path.isfile(path):
                    shutil.copyfile(path, target)
                    return link
            else:
                quoted = urllib.parse.quote(name)
                if _download(f"{link.rstrip('/')}/{quoted}", target):
                    return link
    return ""


def _download(address: str, target: str) -> bool:
    """Whether the address has a file; it is at `target` then."""
    if not address.startswith(("http://", "https://", "file://")):
        raise UserError(
            f"--find_links: wanted a folder, http:// or https://, found {address}"
        )
    try:
        with (
            urllib.request.urlopen(address, timeout=_SECONDS) as answer,
            open(target, "wb") as out,
        ):
            left = LARGEST_FILE
            while data := answer.read(1 << 20):
                left -= len(data)
                if left < 0:
                    raise UserError(
                        f"{address} is larger than {LARGEST_FILE >> 20} MiB"
                    )
                out.write(data)
    except urllib.error.HTTPError as e:
        if e.code in (403, 404, 410):
            return False
        raise UserError(f"{address}: {e}; run again to resume") from e
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ConnectionError,
        TimeoutError,
    ) as e:
        raise UserError(f"{address}: {e}; run again to resume") from e
    return True


def _from_registry(package: Package, target: str) -> None:
    folder = target + ".client"
    if package.registry == "pypi":
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet"),
            *("--no-deps", "--only-binary=:all:", f"--dest={folder}"),
            f"{package.package}=={package.version}",
        ]
    elif not shutil.which("apt-get"):
        raise UserError(
            f"{package.name}: this machine has no apt-get; give "
            "--find_links=MIRROR with the address of a Debian mirror, or leave "
            "this source out with --sources"
        )
    else:
        command = [
            # The folder belongs to the user, not to apt's own one.
            *("apt-get", "--quiet=2", "--option=APT::Sandbox::User=root"),
            *("download", f"{package.package}={package.version}"),
        ]
    os.makedirs(folder, exist_ok=True)
    try:
        _run(package, command, folder)
        _take(package, folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(package: Package, command: list[str], folder: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CLIENT_SECONDS,
        )
        problem = done.stderr.strip() if done.returncode else ""
        failed = done.returncode != 0
    except subprocess.TimeoutExpired:
        failed, problem = True, f"no end after {_CLIENT_SECONDS} s"
    if failed:
        raise UserError(
            f"{package.name}: {package.package} {package.version} cannot be "
            f"had from the {package.registry} registry: {problem[-_SHOWN:]}; "
            "refresh its lists (apt-get update), give --find_links with a "
            "folder or mirror that has the file, or leave this source out with "
            "--sources"
        )


def _take(package: Package, folder: str, target: str) -> None:
    """The one file that a client has left."""
    names = [n for n in os.listdir(folder) if n.endswith((".deb", ".whl"))]
    if len(names) != 1:
        raise UserError(
            f"{package.name}: wanted one file of {package.package} "
            f"{package.version}, found {sorted(names)}"
        )
    os.replace(os.path.join(folder, names[0]), target)
