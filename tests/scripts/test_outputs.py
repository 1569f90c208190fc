"""What the scripts leave in the repository belongs to this machine alone."""

import re

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
