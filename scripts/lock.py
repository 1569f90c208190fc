"""Prints requirements-lock.txt: every package, indirect ones too, with hashes.

    python scripts/lock.py --python=python3.11 --python=python3.12 \\
        --python=python3.13 > lock.new
    mv lock.new requirements-lock.txt

Each interpreter's pip resolves requirements.txt and requirements-serve.txt
(nothing is installed); what differs between them gets a marker. Hashes are of
the files that Linux on x86_64 takes: on other machines use requirements.txt.
"""

import argparse
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-serve.txt")
HEADER = """\
# Every package with its version and the hashes of its files, for
#     pip install --require-hashes -r requirements-lock.txt
# on Linux x86_64 with Python {versions}. Made by scripts/lock.py from
# {files}; a test compares the pins.
"""


def resolve(python: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """("3.11", package -> (version, hash)) of an interpreter."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()
    command = [python, "-m", "pip", "install", "--dry-run", "--quiet"]
    command += ["--ignore-installed", "--report=-"]
    for name in FILES:
        command += ["-r", str(ROOT / name)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    versions = {}
    for package in json.loads(done.stdout)["install"]:
        data = package["metadata"]
        name = re.sub(r"[-_.]+", "-", data["name"]).lower()
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        versions[name] = data["version"], digest
    return version, versions


def lines(found: dict[str, dict[str, tuple[str, str]]]) -> list[str]:
    """The file's lines from what each Python version takes."""
    result = []
    for name in sorted(set().union(*found.values())):
        pins: dict[str, list[tuple[str, str]]] = {}
        for python, packages in found.items():
            if name in packages:
                version, digest = packages[name]
                pins.setdefault(version, []).append((python, digest))
        for version, takers in sorted(pins.items()):
            marker = ""
            if len(takers) < len(found):
                wanted = " or ".join(
                    f'python_version == "{python}"' for python, _ in takers
                )
                marker = f" ; {wanted}"
            hashes = sorted({digest for _, digest in takers})
            parts = [f"{name}=={version}{marker}"]
            parts += [f"    --hash=sha256:{digest}" for digest in hashes]
            result.append(" \\\n".join(parts))
    return result


def main() -> None:
    """Resolves for every interpreter and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", required=True)
    by_version = dict(resolve(python) for python in parser.parse_args().python)
    *others, last = sorted(by_version)
    versions = " and ".join([", ".join(others), last] if others else [last])
    print(HEADER.format(versions=versions, files=" and ".join(FILES)), end="")
    print("\n".join(lines(by_version)))


if __name__ == "__main__":
    main()
