"""How every command starts: strict flags, one-line errors, exit status."""

import sys
from collections.abc import Callable

from absl import app, flags, logging

from common import tpu_build
from common.errors import UserError
from flags import strategy_flags


def run(main: Callable[[], None]) -> None:
    """Parses the flags strictly and calls `main()`.

    A `UserError` becomes one line on standard error and exit status 1; a wrong
    or unknown flag is absl's one line and exit status 1, too; surplus
    positional arguments are refused.
    """

    def call(argv: list[str]) -> None:
        if len(argv) > 1:
            fail(f"unexpected argument {argv[1]!r}: options start with --")
        if not flags.FLAGS["verbosity"].present:
            # Libraries report every file they write; --verbosity=0 shows it.
            logging.set_verbosity(logging.WARNING)
        try:
            _check_tpu()
            main()
        except UserError as e:
            fail(str(e))

    _show_flags_in_help()
    app.run(call)


def _check_tpu() -> None:
    """Before TensorFlow is imported, which a wrong driver makes abort.

    Commands that run on a TPU import it in `main`.
    """
    if "use_tpu" in flags.FLAGS and strategy_flags.on_tpu():
        tpu_build.check(strategy_flags.tpu_address())


def _show_flags_in_help() -> None:
    """Makes `--help` list the flags of `flags/`, not of the main file alone."""
    for module, found in flags.FLAGS.flags_by_module_dict().items():
        if module.startswith("flags."):
            for flag in found:
                flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)


def fail(message: str) -> None:
    """Prints `error: message` on standard error and exits with status 1."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(1)
