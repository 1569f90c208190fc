"""Command: every measurement, one after the other.

    python -m benchmarks.all --quick
    python -m benchmarks.all --torch_python=/path/to/bench-env/bin/python

Comparisons with the peers (`benchmarks.compare`), then the data side
(`benchmarks.data_build`, `.reader`, `.squad_preprocess`) where its files are
given. `--quick` takes fewer rounds and sizes.
"""

import subprocess
import sys

from absl import flags

import common
from common.errors import UserError
from flags import app

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_bool("quick", False, "Fewer rounds, sizes and systems.")
    flags.DEFINE_string(
        "torch_python", None, "Python with requirements-bench.txt."
    )
    flags.DEFINE_string(
        "json_output", None, "JSON lines of the comparisons go here, too."
    )
    flags.DEFINE_string(
        "data_dir",
        None,
        "Texts of the suite 'lengths': see benchmarks.compare.",
    )
    flags.DEFINE_string(
        "spiece_model_file", None, "Tokenizer of the texts in --data_dir."
    )
    flags.DEFINE_string(
        "data_args",
        None,
        "Flags of benchmarks.data_build, in one string; empty = its defaults; "
        "left out = not run.",
    )
    flags.DEFINE_string("reader_args", None, "The same for benchmarks.reader.")
    flags.DEFINE_string(
        "squad_args", None, "The same for benchmarks.squad_preprocess."
    )


def commands() -> list[list[str]]:
    """The modules to run with their arguments."""
    compare = ["benchmarks.compare"]
    if FLAGS.quick:
        compare.append("--quick")
    for name in (
        "torch_python",
        "json_output",
        "data_dir",
        "spiece_model_file",
    ):
        if FLAGS[name].value:
            compare.append(f"--{name}={FLAGS[name].value}")
    arguments_of_all = [compare]
    for module, arguments in (
        ("data_build", FLAGS.data_args),
        ("reader", FLAGS.reader_args),
        ("squad_preprocess", FLAGS.squad_args),
    ):
        if arguments is not None:
            arguments_of_all.append(
                [f"benchmarks.{module}", *arguments.split()]
            )
    return arguments_of_all


def main() -> None:
    """Runs them all; a failure does not stop the rest."""
    failed = []
    for module, *arguments in commands():
        print(f"== {module} {' '.join(arguments)}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            check=False,
            env=common.users_environment(),  # which its peers have
        )
        if done.returncode:
            failed.append(module)
    if failed:
        raise UserError(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    define()
    app.run(main)
