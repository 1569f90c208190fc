"""Every command reads its arguments: wrong ones, or --help, start nothing."""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.helpers import layers

# What reads arguments; the last one starts another command.
PARSERS = re.compile(
    r"\bapp\.run\(|\.parse_args\(|\.parse_known_args\(|\.run_module\("
)
SCRIPTS = sorted(
    path
    for path in layers.source_files()
    if path.parts[len(ROOT.parts)] == "scripts"
    and "__main__" in path.read_text(encoding="utf-8")
)


def commands() -> list[pathlib.Path]:
    """Files that do something when they are started."""
    return [
        path
        for path in layers.source_files()
        if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")
    ]


def test_every_command_has_a_parser():
    found = commands()
    assert len(found) > 60
    without = [
        str(path.relative_to(ROOT))
        for path in found
        if not PARSERS.search(path.read_text(encoding="utf-8"))
    ]
    assert not without


def started(path: pathlib.Path, argument: str) -> subprocess.CompletedProcess:
    """A script as a file, from another folder than the checkout."""
    return subprocess.run(
        [sys.executable, str(path), argument],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_a_file_with_help_and_refuses_what_it_does_not_know(path):
    done = started(path, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 2
    refused = started(path, "--no_such_argument")
    assert refused.returncode in (1, 2) and refused.stdout == ""
    assert "rror" in refused.stderr
    assert "Traceback" not in refused.stderr
