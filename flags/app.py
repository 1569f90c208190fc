"""How every command starts: strict flags, one-line errors, exit status."""

import sys
from collections.abc import Callable

from absl import app

from common.errors import UserError


def run(main: Callable[[], None]) -> None:
    """Parses the flags strictly and calls `main()`.

    A `UserError` becomes one line on standard error and exit status 1; a wrong
    or unknown flag is absl's one line and exit status 1, too; surplus
    positional arguments are refused.
    """

    def call(argv: list[str]) -> None:
        if len(argv) > 1:
            fail(f"unexpected argument {argv[1]!r}: options start with --")
        try:
            main()
        except UserError as e:
            fail(str(e))

    app.run(call)


def fail(message: str) -> None:
    """Prints `error: message` on standard error and exits with status 1."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    sys.exit(1)
