"""What the scripts leave in the repository belongs to this machine alone."""

import re
import subprocess

import pytest

from tests.conftest import ROOT


def test_outputs_are_ignored_and_stay_out_of_the_archive():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    outputs = [line[1:-1] for line in ignored if re.match(r"/\w+/$", line)]
    assert {"quickstart_output", "lm_quickstart_output"} <= set(outputs)
    common = (ROOT / "scripts" / "tpu" / "common.sh").read_text()
    excluded = re.findall(r"--exclude=\./(\w+)", common)
    assert set(outputs) == set(excluded)


def test_the_default_outputs_of_scripts_are_ignored():
    ignored = (ROOT / ".gitignore").read_text()
    found = 0
    for path in (ROOT / "scripts").glob("*.sh"):
        for name in re.findall(r'OUT="\$\{1:-(\w+)\}"', path.read_text()):
            assert f"/{name}/" in ignored, path.name
            found += 1
    assert found >= 2


@pytest.mark.parametrize("script", ["quickstart", "lm_quickstart", "released"])
def test_an_echoed_command_can_be_pasted(script):
    """Folders may have spaces, texts quotes."""
    text = (ROOT / "scripts" / f"{script}.sh").read_text()
    run = re.search(r"^run\(\) \{\n.*?^\}\n", text, re.M | re.S)[0]
    words = ["-m", "data.inspect", "--file=a folder/it's $HOME", "<mask>"]
    done = subprocess.run(
        ["bash", "-c", f'PY=true\n{run}run "$@"', "bash", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    line = done.stdout.strip()
    assert line.startswith("$ python ")
    again = ["bash", "-c", line.replace("$ python", "printf '%s\\n' python", 1)]
    done = subprocess.run(again, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["python", *words]
