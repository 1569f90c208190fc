"""The output folder of a build: leftovers, local and remote paths."""

import json
import os

from common import files
from common.errors import UserError


def make_directory(path: str) -> None:
    """Makes the output folder."""
    try:
        files.make_directory(path)
    except OSError as e:
        raise UserError(f"--output_dir={path} cannot be made: {e}") from e


def remove_leftovers(path: str) -> None:
    """Temporary files of killed processes; the lock says none is alive."""
    for name in files.list_names(path):
        if name.startswith(".") and ".tmp-" in name:
            files.remove(os.path.join(path, name))


def remove_summaries(path: str) -> None:
    """The finished blocks' summaries, once the manifest is written."""
    for name in files.list_names(path):
        if name.startswith("block-") and name.endswith(".json"):
            files.remove(os.path.join(path, name))


def remove_records(path: str, keep: set[str]) -> None:
    """Record files of another plan: of text that was changed since."""
    for name in files.list_names(path):
        if name.endswith(".tfrecord") and name not in keep:
            files.remove(os.path.join(path, name))


def remove_build(path: str) -> None:
    """Everything that a build without any text wrote, but for the lock."""
    for name in files.list_names(path):
        if name.endswith((".json", ".tfrecord")):
            files.remove(os.path.join(path, name))


def read_json(path: str):
    """A JSON file's value; None where there is none or it is damaged."""
    try:
        return json.loads(files.read_bytes(path))
    except (OSError, ValueError):
        return None
