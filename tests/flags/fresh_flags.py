"""Flags of a command without those of others."""

import contextlib
from collections.abc import Callable, Iterator

from absl import flags


def remove_ours() -> None:
    """Deletes the flags that modules of `flags/` registered."""
    values = flags.FLAGS
    for module, found in list(values.flags_by_module_dict().items()):
        if module.startswith("flags."):
            for flag in list(found):
                if flag.name in values:
                    delattr(values, flag.name)


@contextlib.contextmanager
def parsed(define: Callable, *arguments: str) -> Iterator[None]:
    """While it is open, a command line of newly registered flags is read."""
    remove_ours()
    define()
    try:
        flags.FLAGS(["command", *arguments])
        yield
    finally:
        remove_ours()
        flags.FLAGS.unparse_flags()
