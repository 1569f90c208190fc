"""From a package to documents, one file of text for each source.

A document is a member of the package, as sentences of running text. A sentence
that stood in an earlier document of the source is left out: references repeat
theirs on every page.
"""

import dataclasses
import hashlib
import json
import os

from common import files
from data.corpus.registry import archives, plain_text
from data.corpus.registry.source_table import Package

VERSION = 1  # another one makes all texts again
MIN_SENTENCES = 2


@dataclasses.dataclass
class Counts:
    """What was read of a package, and what was left out."""

    members: int = 0  # files with a known format that were read
    member_bytes: int = 0
    too_large: int = 0  # members left out for their size
    documents: int = 0  # with at least two sentences
    bytes: int = 0  # of the documents
    repeated_bytes: int = 0  # in sentences that stood in an earlier document
    short_bytes: int = 0  # in members with fewer sentences


def extract(folder: str, item: tuple[Package, str]) -> tuple[str, dict]:
    """(name, counts) of a package and its file; a finished text is kept.

    The folder receives `NAME.txt` and `NAME.json`, the latter last.
    """
    package, path = item
    target = text_path(folder, package)
    about = os.path.join(folder, f"{package.name}.json")
    identity = {
        "version": VERSION,
        "package": dataclasses.asdict(package) | {"weight": None},
    }
    if (earlier := _earlier(about, target)) and (
        earlier["identity"] == identity
    ):
        return package.name, earlier["counts"]
    counts = Counts()
    with files.atomic_open(target, "w") as out:
        _extract(package, path, out, counts)
    value = {"identity": identity, "counts": dataclasses.asdict(counts)}
    value["sha256"] = files.sha256_of_file(target)
    files.write_json(about, value)
    return package.name, value["counts"]


def text_path(folder: str, package: Package) -> str:
    """Where the text of a package is."""
    return os.path.join(folder, f"{package.name}.txt")


def _earlier(about: str, target: str) -> dict | None:
    """What a finished extraction wrote, if the text is still that one."""
    try:
        with open(about, encoding="utf-8") as f:
            value = json.load(f)
        same = files.sha256_of_file(target) == value["sha256"]
        return value if same else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def _extract(package: Package, path: str, out, counts: Counts) -> None:
    seen: set[bytes] = set()

    def wanted(name: str) -> bool:
        return bool(plain_text.kind(name)) and package.wants(name)

    for name, data in archives.members(path, wanted):
        if not data:
            counts.too_large += 1
            continue
        counts.members += 1
        counts.member_bytes += len(data)
        document, size = [], 0
        for sentence in plain_text.sentences(name, data):
            # Docstrings and JSON may have halves of surrogate pairs.
            sentence = sentence.encode("utf-8", "ignore").decode()
            length = len(sentence.encode()) + 1
            digest = hashlib.blake2b(
                sentence.casefold().encode(), digest_size=8
            ).digest()
            if digest in seen:
                counts.repeated_bytes += length
                continue
            seen.add(digest)
            document.append(sentence)
            size += length
        if len(document) < MIN_SENTENCES:
            counts.short_bytes += size
            continue
        out.write("\n".join(document) + "\n\n")
        counts.documents += 1
        counts.bytes += size + 1
