"""scripts/tpu/install.sh on machines made of small programs.

tests/scripts/tpu/test_tpu_environment.py runs it in earnest.
"""

import os
import pathlib
import shlex
import shutil
import subprocess

import pytest

from tests.conftest import ROOT
from tests.scripts.tpu.small_programs import program

TOOLS = "awk bash cat chmod cksum cp dirname env hostname id mkdir rm sh tr"

# Python as far as the script asks: its version, whether it fits, and what is
# done with it, which is written down.
PYTHON = """#!/bin/bash
here=$(dirname "$0")
case "$*" in
  *releaselevel*) {fits} ;;
  *python_version*) echo {version} ;;
  *check_packages*) echo check >> "$LOG"; [ -e "$here/installed" ] ;;
  *describe*) echo tensorflow-tpu 2.20.0 ;;
  "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo venv >> "$LOG" ;;
  "-m pip install"*"-r requirements-tpu.txt")
    echo "$*" >> "$LOG"; cat /dev/null > "$here/installed" ;;
  "-m pip uninstall"*) echo "$*" >> "$LOG" ;;
  "-m pip --version") {pip} ;;
  "-m pip install"*uv*) echo "$*" >> "$LOG"; {pip} ;;
  "-m site --user-base") echo "$HOME" ;;
  "-c import tensorflow"*) echo "import $TPU_LOAD_LIBRARY" >> "$LOG" ;;
  *) echo "unexpected: $*" >&2; exit 9 ;;
esac
"""


def python(path: pathlib.Path, version: str, fits: bool, pip: bool = False):
    program(
        path,
        PYTHON.format(
            version=version,
            fits=str(fits).lower(),
            pip=str(pip).lower(),
        ),
    )


@pytest.fixture
def vm(tmp_path):
    """A machine with these tools only; `run` gives (result, log lines)."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for tool in TOOLS.split():
        (bin_folder / tool).symlink_to(shutil.which(tool))
    program(bin_folder / "sudo", '#!/bin/bash\nexec "$@"\n')

    class Machine:
        bin = bin_folder
        venv = tmp_path / "venv"

        def run(self, *arguments, **environment):
            log = tmp_path / "log"
            log.unlink(missing_ok=True)
            done = subprocess.run(
                [bin_folder / "bash", "scripts/tpu/install.sh", *arguments],
                cwd=ROOT,
                env={
                    "PATH": str(bin_folder),
                    "HOME": str(tmp_path / "home"),
                    "VENV": str(self.venv),
                    "LOG": str(log),
                    **environment,
                },
                capture_output=True,
                text=True,
            )
            return done, log.read_text().splitlines() if log.exists() else []

    return Machine()


INSTALL = [
    "-m pip uninstall --quiet --yes tensorflow tensorflow-tpu",
    "-m pip install --quiet --disable-pip-version-check --no-deps -r "
    "requirements-tpu.txt",
]


def test_a_python_on_the_path(vm):
    python(vm.bin / "python3", "3.10.12", fits=False)
    python(vm.bin / "python3.12", "3.12.3", fits=True)
    done, log = vm.run()
    assert done.returncode == 0, done.stderr
    assert log == ["venv", "check", *INSTALL, "check", "import 0"]
    assert "Python 3.12.3, tensorflow-tpu 2.20.0, packages " in done.stdout
    # Again: only checked.
    done, log = vm.run()
    assert done.returncode == 0, done.stderr
    assert "already installed" in done.stdout
    assert log == ["check", "check", "import 0"]
    # Another build was installed over it: put right.
    (vm.venv / "bin/installed").unlink()
    done, log = vm.run()
    assert done.returncode == 0, done.stderr
    assert log == ["check", *INSTALL, "check", "import 0"]


def test_only_python_3_10(vm):
    python(vm.bin / "python3", "3.10.12", fits=False)
    done, log = vm.run()
    assert done.returncode == 1
    assert done.stderr == (
        "error: no Python 3.11 or 3.12, python3 is 3.10.12: neither the "
        "distribution nor uv gave one; install one and set "
        "PYTHON=/path/to/python3.11\n"
    )
    assert log == [] and not vm.venv.exists()


def test_a_given_python_must_fit(vm):
    python(vm.bin / "python3.11", "3.11.9", fits=True)
    python(vm.bin / "mine", "3.10.12", fits=False)
    done, _ = vm.run(PYTHON="mine")
    assert done.returncode == 1
    assert "error: PYTHON=mine is 3.10.12; a released Python" in done.stderr


def test_an_environment_of_another_python(vm):
    python(vm.bin / "python3.11", "3.11.9", fits=True)
    python(vm.venv / "bin/python", "3.10.12", fits=False)
    done, log = vm.run()
    assert done.returncode == 1
    assert f"{vm.venv} has 3.10.12, 3.11 or 3.12 is needed" in done.stderr
    assert f"rm -r {vm.venv}" in done.stderr
    assert log == []


def apt(vm, candidate):
    program(
        vm.bin / "apt-cache",
        f'#!/bin/bash\n[ "$2" = python3.11 ] && echo "  Candidate: {candidate}"'
        "\nexit 0\n",
    )
    ready = vm.bin.parent / "ready"
    python(ready, "3.11.2", fits=True)
    program(
        vm.bin / "apt-get",
        '#!/bin/bash\necho "apt-get $*" >> "$LOG"\n'
        f'[ "$1" = install ] && cp {ready} {vm.bin}/python3.11\nexit 0\n',
    )


def test_the_distributions_python(vm):
    python(vm.bin / "python3", "3.10.12", fits=False)
    apt(vm, "3.11.2-6+deb12u9")
    done, log = vm.run()
    assert done.returncode == 0, done.stderr
    assert log[:3] == [
        "apt-get update -q",
        "apt-get install -y -q python3.11 python3.11-venv",
        "venv",
    ]


@pytest.mark.parametrize("candidate", ["3.11.0~rc1-1~22.04", "(none)", ""])
def test_uv_where_the_distribution_has_no_release(vm, candidate):
    python(vm.bin / "python3", "3.10.12", fits=False, pip=True)
    apt(vm, candidate)
    managed = vm.bin.parent / "managed"
    python(managed, "3.11.18", fits=True)
    program(
        vm.bin.parent / "home/bin/uv",
        '#!/bin/bash\necho "uv $*" >> "$LOG"\n'
        f'[ "$2" = find ] && echo {managed}\nexit 0\n',
    )
    done, log = vm.run()
    assert done.returncode == 0, done.stderr
    assert log[:5] == [
        "apt-get update -q",
        "-m pip install --quiet --user uv==0.13.9",
        "uv python install 3.11",
        "uv python find --managed-python 3.11",
        "venv",
    ]


def test_uv_that_reaches_nothing(vm):
    python(vm.bin / "python3", "3.10.12", fits=False)
    program(vm.bin / "uv", "#!/bin/bash\necho no network >&2\nexit 2\n")
    done, _ = vm.run()
    assert done.returncode == 1
    assert "neither the distribution nor uv gave one" in done.stderr
    assert not vm.venv.exists()


def test_dry_run(vm):
    python(vm.bin / "python3.11", "3.11.9", fits=True)
    done, log = vm.run("--dry_run")
    assert done.returncode == 0, done.stderr
    assert log == [] and not vm.venv.exists()
    lines = [n for n in done.stdout.splitlines() if n and n[0] != "="]
    words = [shlex.split(line) for line in lines]
    inside = str(vm.venv / "bin/python")
    assert words[0] == ["python3.11", "-m", "venv", str(vm.venv)]
    assert [w[0] for w in words[1:4]] == [inside] * 3
    assert " ".join(words[1][1:]) == INSTALL[0]
    assert " ".join(words[2][1:]) == INSTALL[1]
    assert "check_packages" in words[3][2]
    assert words[4][:2] == ["env", "TPU_LOAD_LIBRARY=0"]
    assert os.path.exists(ROOT / "requirements-tpu.txt")
