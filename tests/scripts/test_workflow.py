"""What others run for us: the workflow and the image."""

import json
import re

import pytest

from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_workflow_runs_the_readmes_commands():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    ran = [
        step["run"]
        for job in jobs.values()
        for step in job["steps"]
        if "run" in step
    ]
    section = README.split("## Three commands")[1].split("## ")[0]
    commands = re.findall(r"^    (bash \S+)", section, re.MULTILINE)
    assert len(commands) == 3
    both = [c + " --long" * c.endswith("test.sh") for c in commands[:2]]
    assert sorted(ran) == sorted(both)
    pythons = jobs["test"]["strategy"]["matrix"]["python"]
    setup = (ROOT / "scripts" / "setup.sh").read_text()
    assert all(f"python{version} " in setup for version in pythons)


def test_the_image_serves_as_nobody_with_pinned_parts():
    text = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^FROM python:\d+\.\d+\.\d+-\S+$", text, re.MULTILINE)
    (user,) = re.findall(r"^USER (\d+)$", text, re.MULTILINE)
    assert int(user) > 0 and "/healthz" in text
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    command = json.loads(command)
    assert (ROOT / (command[2].replace(".", "/") + ".py")).exists()
    for name in re.findall(r"-r (\S+)", text):
        assert (ROOT / name).exists(), name
    assert any(part.startswith("--api_keys_file=") for part in command)
