"""requirements-tpu.txt has one TensorFlow, that of the TPU, and our pins."""

import json
import re
import subprocess

from common.process import tpu_build
from scripts.tpu import lock
from tests.conftest import ROOT


def pins(name) -> dict[str, str]:
    found = {}
    for line in (ROOT / name).read_text().splitlines():
        if line and not line.startswith("#"):
            package, _, version = line.partition("==")
            found[package] = version
    return found


def test_the_lock_agrees_with_the_requirements():
    locked, direct = pins("requirements-tpu.txt"), pins("requirements.txt")
    # Made by scripts/tpu/lock.py: run it again after a change of either.
    assert locked["tensorflow-tpu"] == direct.pop("tensorflow")
    assert "tensorflow" not in locked
    assert {n: locked.get(n) for n in direct} == direct
    assert locked["tensorflow-tpu"] == tpu_build.TENSORFLOW
    assert locked["libtpu"] == tpu_build.LIBTPU
    assert all(re.fullmatch(r"[\w.]+", v) for v in locked.values())


def test_what_pip_resolves_is_sorted_without_the_build_for_cpus(
    monkeypatch, capsys
):
    asked = []
    packages = {
        "tf_keras": "2.20.1",
        "tensorflow": "2.20.0",
        "ABSL.py": "1.4.0",
        "libtpu": "0.0.21",
        "tensorflow_tpu": "2.20.0",
    }
    report = {
        "install": [
            {"metadata": {"name": name, "version": version}}
            for name, version in packages.items()
        ]
    }

    def run(command, **how):
        asked.append((command, how))
        return subprocess.CompletedProcess(command, 0, json.dumps(report))

    monkeypatch.setattr(lock.subprocess, "run", run)
    monkeypatch.setattr("sys.argv", ["lock.py"])
    lock.main()
    out = capsys.readouterr().out
    assert out.startswith(lock.HEADER)
    assert out.removeprefix(lock.HEADER).splitlines() == [
        "absl-py==1.4.0",
        "libtpu==0.0.21",
        "tensorflow-tpu==2.20.0",
        "tf-keras==2.20.1",
    ]
    ((command, how),) = asked
    # Nothing is installed, what is installed does not count.
    assert {"--dry-run", "--ignore-installed", "--report=-"} <= {*command}
    assert command[-3:] == [
        str(ROOT / "requirements.txt"),
        f"tensorflow-tpu=={tpu_build.TENSORFLOW}",
        f"libtpu=={tpu_build.LIBTPU}",
    ]
    assert how["check"] is True


def test_the_file_begins_as_the_script_writes_it():
    text = (ROOT / "requirements-tpu.txt").read_text(encoding="utf-8")
    assert text.startswith(lock.HEADER)
    names = re.findall(r"^([^#\n]+)==", text, re.M)
    assert len(names) > 50 and names == sorted(names)
