"""Prints requirements-tpu.txt: every package of a TPU VM, with its version.

    python scripts/tpu/lock.py > requirements.new
    mv requirements.new requirements-tpu.txt

pip resolves requirements.txt together with the TPU build (nothing is
installed); the CPU build, whose files lie in the same folder, is left out.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from common.process import tpu_build  # noqa: E402

HEADER = """\
# The environment of Cloud TPU VMs (scripts/tpu/install.sh): every package,
# installed with --no-deps, because `tensorflow`, which others ask for, would
# overwrite `tensorflow-tpu`. Made by scripts/tpu/lock.py; the versions of
# libtpu that TensorFlow can load are in docs/guides/tpu.md.
"""


def main() -> None:
    """Resolves and prints, sorted by name."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    command = [
        *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet"),
        *("--ignore-installed", "--report=-"),
        *("-r", str(ROOT / "requirements.txt")),
        f"tensorflow-tpu=={tpu_build.TENSORFLOW}",
        f"libtpu=={tpu_build.LIBTPU}",
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    packages = [p["metadata"] for p in json.loads(done.stdout)["install"]]
    pins = {
        re.sub(r"[-_.]+", "-", p["name"]).lower(): p["version"]
        for p in packages
    }
    del pins["tensorflow"]
    sys.stdout.write(HEADER)
    for name, version in sorted(pins.items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
