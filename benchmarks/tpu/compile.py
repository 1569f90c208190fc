"""Command: compiles lowered HLO for a TPU core and prints what it costs.

    python -m benchmarks.tpu.compile program.hlo v3

One JSON line. A process of its own: the compiler of a large model takes many
gigabytes, which are returned this way, and TensorFlow's are not needed here.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

from benchmarks.tpu import lowering as tpu_lowering
from common.errors import UserError


def main() -> None:
    """Reads the program, compiles it, prints the answer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="lowered HLO")
    parser.add_argument("topology", choices=tpu_lowering.TOPOLOGIES)
    given = parser.parse_args()
    if not given.program.is_file():
        parser.error(f"wanted a file of lowered HLO, found {given.program}")
    try:
        compiled = tpu_lowering.compile_for(
            given.program.read_bytes(), given.topology
        )
    except tpu_lowering.CompileError as e:
        print(json.dumps({"error": str(e)}))
        return
    except UserError as e:  # no jax
        sys.exit(f"error: {e}")
    print(json.dumps(dataclasses.asdict(compiled)))


if __name__ == "__main__":
    main()
