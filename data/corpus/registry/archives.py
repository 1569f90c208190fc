"""Members of packages, read without unpacking or running them.

Debian packages, wheels and source archives are read from front to back. Nothing
is written to disk. Sizes are bounded by what is read, not by what a header says.
"""

import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from common.errors import UserError

LARGEST_MEMBER = 64 << 20  # bytes, unpacked
LARGEST_PACKAGE = 4 << 30
_AR_MAGIC = b"!<arch>\n"
_BROKEN = (
    EOFError,
    OSError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def members(
    path: str, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the regular files of a package, in its order.

    A member that is packed itself (`.gz`, `.dz`) is unpacked and loses that
    ending, for `wanted`, too. One that is larger than `LARGEST_MEMBER` has no
    bytes (`b""`). Packages are `.deb`, `.whl`, `.zip` or `.tar.*` files. Raises
    UserError: a file of another kind, a damaged one, or one that is larger than
    `LARGEST_PACKAGE` unpacked.
    """
    total = 0
    try:
        for name, read in _files(path):
            packed = name.endswith((".gz", ".dz"))
            short = name[:-3] if packed else name
            if not wanted(short):
                continue
            data = read()
            if packed:
                data = _unpack(data)
            total += len(data)
            if total > LARGEST_PACKAGE:
                raise UserError(
                    f"{path}: unpacks to more than {LARGEST_PACKAGE >> 30} GiB"
                )
            yield short, data if len(data) <= LARGEST_MEMBER else b""
    except _BROKEN as e:
        raise UserError(f"{path}: cannot be read as a package: {e}") from e


def _files(path: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(name, how to read it) of the regular files."""
    if path.endswith((".whl", ".zip")):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    yield entry.filename, _reader(archive.open, entry)
    elif path.endswith(".deb"):
        with open(path, "rb") as f:
            yield from _tar_files(_debian_data(f, path))
    elif ".tar" in path or path.endswith(".tgz"):
        with open(path, "rb") as f:
            yield from _tar_files(f)
    else:
        raise UserError(
            f"{path}: wanted a name that ends in .deb, .whl, .zip or .tar.*"
        )


def _tar_files(f: IO[bytes]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    with tarfile.open(fileobj=f, mode="r|*") as archive:
        for entry in archive:
            if entry.isreg():
                yield (
                    entry.name.removeprefix("./"),
                    _reader(archive.extractfile, entry),
                )


def _reader(open_member: Callable, entry) -> Callable[[], bytes]:
    def read() -> bytes:
        with open_member(entry) as f:
            return f.read(LARGEST_MEMBER + 1)

    return read


def _unpack(data: bytes) -> bytes:
    with gzip.open(io.BytesIO(data)) as f:
        return f.read(LARGEST_MEMBER + 1)


def _debian_data(f: IO[bytes], path: str) -> IO[bytes]:
    """The `data.tar.*` of a Debian package; `f` is an `ar` archive."""
    if f.read(len(_AR_MAGIC)) != _AR_MAGIC:
        raise UserError(f"{path}: wanted a Debian package, found other bytes")
    # A header has 60 bytes: name, time, owner, group, mode, size, end.
    while len(header := f.read(60)) == 60:
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        size = int(header[48:58])
        if name in ("data.tar", "data.tar.xz", "data.tar.gz", "data.tar.bz2"):
            return io.BytesIO(f.read(size))
        if name.startswith("data.tar"):
            raise UserError(f"{path}: cannot unpack {name}")
        f.seek(size + size % 2, io.SEEK_CUR)
    raise UserError(f"{path}: wanted a Debian package, found no data.tar")
