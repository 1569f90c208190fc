"""Command: compiles lowered HLO for a TPU core and prints what it costs.

    python -m benchmarks.tpu.compile program.hlo v3

One JSON line. A process of its own: the compiler of a large model takes many
gigabytes, which are returned this way, and TensorFlow's are not needed here.
"""

import dataclasses
import json
import sys

from benchmarks.tpu import lowering as tpu_lowering


def main() -> None:
    """Reads the program, compiles it, prints the answer."""
    path, topology = sys.argv[1:]
    with open(path, "rb") as f:
        hlo = f.read()
    try:
        compiled = tpu_lowering.compile_for(hlo, topology)
    except tpu_lowering.CompileError as e:
        print(json.dumps({"error": str(e)}))
        return
    print(json.dumps(dataclasses.asdict(compiled)))


if __name__ == "__main__":
    main()
