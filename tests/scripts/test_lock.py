"""requirements-lock.txt holds the pins of the files that it is made from."""

import json
import re
import subprocess
import sys

from scripts import lock
from tests.conftest import ROOT

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))?(?: \\)?$")


def pins(text):
    """(name, version, marker) of every pin."""
    found = [
        m.groups() for line in text.splitlines() if (m := _PIN.match(line))
    ]
    return [(re.sub(r"[-_.]+", "-", n).lower(), v, m) for n, v, m in found]


def test_direct_pins_are_the_same():
    locked = {
        n: v for n, v, _ in pins((ROOT / "requirements-lock.txt").read_text())
    }
    wanted = [
        pin for name in lock.FILES for pin in pins((ROOT / name).read_text())
    ]
    assert len(wanted) > 15
    for name, version, _ in wanted:
        assert locked[name] == version, f"{name}: run scripts/lock.py"


def test_every_pin_has_hashes_and_no_host():
    text = (ROOT / "requirements-lock.txt").read_text()
    blocks = text.replace("\\\n", " ").splitlines()
    for block in blocks:
        if not block.startswith("#"):
            assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block
    assert "://" not in text and "@" not in text


def test_the_page_names_the_versions_of_python_that_the_hashes_are_of():
    """pip refuses the wheels of any other one."""
    head = (ROOT / "requirements-lock.txt").read_text().splitlines()[2]
    versions = re.findall(r"3\.\d+", head)
    assert versions
    page = (ROOT / "docs/tutorials/install.md").read_text(encoding="utf-8")
    (block,) = [b for b in page.split("\n\n") if "requirements-lock" in b]
    assert re.findall(r"3\.\d+", block) == versions


def test_versions_that_differ_get_markers():
    found = {
        "3.11": {"a": ("1", "aa"), "b": ("1", "bb"), "c": ("1", "cc")},
        "3.12": {"a": ("1", "a2"), "b": ("2", "b2")},
    }
    assert lock.lines(found) == [
        "a==1 \\\n    --hash=sha256:a2 \\\n    --hash=sha256:aa",
        'b==1 ; python_version == "3.11" \\\n    --hash=sha256:bb',
        'b==2 ; python_version == "3.12" \\\n    --hash=sha256:b2',
        'c==1 ; python_version == "3.11" \\\n    --hash=sha256:cc',
    ]


def test_an_interpreter_is_asked_for_its_version_and_its_packages(monkeypatch):
    commands = []
    report = {
        "install": [
            {
                "metadata": {"name": name, "version": version},
                "download_info": {
                    "archive_info": {"hashes": {"sha256": digest}}
                },
            }
            for name, version, digest in (
                ("Typing_Extensions", "4.1", "a0"),
                ("zope.interface", "5.2", "b1"),
            )
        ]
    }

    def run(command, **how):
        commands.append(command)
        assert how["check"] is True
        out = "3.11\n" if command[1] == "-c" else json.dumps(report)
        return subprocess.CompletedProcess(command, 0, out)

    monkeypatch.setattr(lock.subprocess, "run", run)
    assert lock.resolve("python3.11") == (
        "3.11",
        {
            "typing-extensions": ("4.1", "a0"),
            "zope-interface": ("5.2", "b1"),
        },
    )
    assert [command[0] for command in commands] == ["python3.11"] * 2
    assert {"--dry-run", "--ignore-installed"} <= {*commands[1]}
    given = [str(ROOT / name) for name in lock.FILES]
    assert commands[1][-4:] == ["-r", given[0], "-r", given[1]]


def test_the_file_is_the_head_and_the_lines_of_all_interpreters(
    monkeypatch, capsys
):
    found = {
        "python3.12": ("3.12", {"a": ("1", "aa")}),
        "python3.11": ("3.11", {"a": ("1", "aa"), "b": ("2", "bb")}),
    }
    monkeypatch.setattr(lock, "resolve", found.__getitem__)
    arguments = [f"--python={name}" for name in found]
    monkeypatch.setattr(sys, "argv", ["lock.py", *arguments])
    lock.main()
    assert capsys.readouterr().out == (
        lock.HEADER.format(
            versions="3.11 and 3.12",
            files="requirements.txt and requirements-serve.txt",
        )
        + "a==1 \\\n    --hash=sha256:aa\n"
        + 'b==2 ; python_version == "3.11" \\\n    --hash=sha256:bb\n'
    )
