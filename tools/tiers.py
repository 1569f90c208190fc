"""The order of the slow tier: what changed last, and the others by turns.

    python -m tools.tiers

Prints a line per part: files of tests, one space between two. The slow tier takes
longer than CI waits. Every second file is of what a commit of the last day may have
broken. The others begin at a file that the commit draws, so that another commit runs
what this one leaves out, however much changed.
"""

import argparse
import itertools
import pathlib
import re
import subprocess
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
_PART = 24  # files: a process keeps what it has compiled, 10 GB of all of them
_MARK = re.compile(r"mark\.slow\b")


def slow_files(root: pathlib.Path = ROOT) -> list[str]:
    """Files that have slow tests, sorted, relative to the root."""
    files = sorted(root.glob("tests/**/test_*.py"))
    return [
        str(f.relative_to(root))
        for f in files
        if _MARK.search(f.read_text(encoding="utf-8"))
    ]


def affected(slow: list[str], changed: list[str]) -> list[str]:
    """Slow files that changed, or whose part of the product did.

    Args:
      slow: of `slow_files`.
      changed: paths relative to the root, the last change first.

    Returns:
      The changed files of tests, then those that test a changed file: `a/b/c.py`
      leads to `tests/a/b/test_c.py`, then to the others of that folder.
    """
    affected_files = [path for path in changed if path in slow]
    for path in map(pathlib.PurePosixPath, changed):
        if path.parts[0] == "tests" or path.suffix != ".py":
            continue
        folder = pathlib.PurePosixPath("tests") / path.parent
        mirrored = str(folder / f"test_{path.name}")
        affected_files += [x for x in slow if x == mirrored]
        if path.parent.name:
            beside = [x for x in slow if pathlib.PurePath(x).parent == folder]
            affected_files += beside
    return list(dict.fromkeys(affected_files))


def parts(slow: list[str], first: list[str], turn: int) -> list[list[str]]:
    """All of `slow`: `first`, and between them the others from `turn` on."""
    others = [path for path in slow if path not in first]
    at = turn % len(others) if others else 0
    pairs = itertools.zip_longest(first, [*others[at:], *others[:at]])
    ordered = [path for pair in pairs for path in pair if path]
    return [ordered[i : i + _PART] for i in range(0, len(ordered), _PART)]


def _git(*arguments: str) -> str:
    """What git says; nothing where there is no repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


def changed_files() -> list[str]:
    """Of the commits of the last day before the newest, the last first."""
    newest = _git("log", "-1", "--format=%ct").strip()
    if not newest:
        return []
    since = f"--since=@{int(newest) - 24 * 3600}"
    return _git("log", since, "--name-only", "--format=").split()


def main() -> None:
    """Prints the parts."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    slow = slow_files()
    turn = zlib.crc32(_git("rev-parse", "HEAD").encode())
    for part in parts(slow, affected(slow, changed_files()), turn):
        print(*part)


if __name__ == "__main__":
    main()
