"""Small packages like those of the registries, and a table that names them."""

import contextlib
import functools
import hashlib
import http.server
import io
import lzma
import pathlib
import tarfile
import threading
import zipfile
from collections.abc import Iterator

PLACES = "river bridge mill farm valley harbour garden forest market church"
PLACES = PLACES.split()
PEOPLE = "miller farmer teacher sailor doctor painter baker singer".split()


def story(number: int, count: int = 12) -> list[str]:
    """Sentences of English that no other number has."""
    return [
        f"In year {number} the {PEOPLE[(number + i) % 8]} walked from the "
        f"{PLACES[i % 10]} to the {PLACES[(i + number) % 10]} with {i + 3} "
        f"friends who had never seen house {number * 31 + i} before."
        for i in range(count)
    ]


def tar(members: dict[str, bytes]) -> bytes:
    """A tar archive without packing."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def debian(path: pathlib.Path, members: dict[str, bytes]) -> pathlib.Path:
    """Writes a Debian package."""
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": lzma.compress(tar({"control": b"Package: x\n"})),
        "data.tar.xz": lzma.compress(tar(members)),
    }
    data = b"!<arch>\n"
    for name, part in parts.items():
        header = f"{name:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(part):<10}`\n"
        data += header.encode() + part + b"\n" * (len(part) % 2)
    path.write_bytes(data)
    return path


def wheel(path: pathlib.Path, members: dict[str, bytes]) -> pathlib.Path:
    """Writes a wheel, as far as it is a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def page(sentences: list[str]) -> bytes:
    """An HTML page of one paragraph."""
    text = " ".join(sentences)
    return f"<html><body><p>{text}</p></body></html>".encode()


def row(name: str, path: pathlib.Path, registry: str, **more: object) -> str:
    """A part of a table of sources."""
    values = {
        "registry": registry,
        "package": name,
        "version": "1.0",
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "licence": "MIT",
    } | more
    lines = [f"{k} = {v!r}" for k, v in values.items()]
    return "\n".join([f"[{name}]", *lines, ""])


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """(address of a folder on this machine, paths that are asked for)."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code="-", size="-"):
            asked.append(self.path)

        def log_message(self, format, *args):
            """Says nothing."""

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
