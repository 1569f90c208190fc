"""The commands that the quickstarts print are those that they run.

Python is a stub that writes its arguments down and makes the few files that
the scripts themselves read.
"""

import os
import subprocess

import pytest

from tests.conftest import ROOT

STUB = """#!/usr/bin/env bash
if [ "$1" = -c ]; then echo "$HOME"; exit 0; fi
printf '%s\\0' "$@" >> "$CALLS"
printf '\\n' >> "$CALLS"
for argument in "$@"; do
  case "$argument" in
    --output_dir=*/corpus) folder="${argument#*=}"
      mkdir -p "$folder"; echo text > "$folder/pretrain.txt";;
    --model_dir=*/pretrain) folder="${argument#*=}"
      mkdir -p "$folder"; echo '{"init_std": 0.1}' > "$folder/xlnet_config.json";;
  esac
done
"""


def calls(path):
    """Arguments of every call that was written down."""
    lines = path.read_bytes().decode().split("\0\n")[:-1]
    found = [line.split("\0") for line in lines]
    return [call for call in found if call[:2] != ["-m", "pip"]]


@pytest.mark.parametrize("name", ["quickstart", "lm_quickstart", "released"])
def test_printed_commands_can_be_pasted(tmp_path, name):
    """Whatever the folder is called: every word is one argument again."""
    place = tmp_path / "venv" / "bin"
    place.mkdir(parents=True)
    (place / "python").write_text(STUB)
    (place / "python").chmod(0o755)
    log = tmp_path / "calls"
    environment = {
        "PATH": f"{place}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "CALLS": str(log),
        "VENV": str(tmp_path / "venv"),
    }

    def bash(*arguments):
        log.write_text("")
        done = subprocess.run(
            ["bash", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, calls(log)

    out = tmp_path / "my out; $PATH's 'a'"
    printed, run = bash(f"scripts/{name}.sh", str(out))
    assert len(run) >= 3 and any(str(out) in x for call in run for x in call)
    lines = [
        line.removeprefix("$ ")
        for line in printed.splitlines()
        if line.startswith("$ python ")
    ]
    assert bash("-c", "\n".join(lines))[1] == run
