"""`--help`: what a command is for, then its flags by subject."""

import sys

from absl import flags

ASKED = ("--help", "-help", "-h", "--helpshort", "-helpshort")
_OWN = "This command"


def asked(argv: list[str]) -> bool:
    """Whether help is wanted (`--helpfull` stays absl's: every library's)."""
    return any(argument in ASKED for argument in argv)


def text() -> str:
    """The main module's docstring and the flags of every `flags/` module."""
    main = sys.modules["__main__"]
    parts = [(main.__doc__ or "").strip(), ""]
    for title, module in _groups():
        body = flags.FLAGS.module_help(module).split(":\n", 1)[-1]
        parts += [f"{title}:", body.rstrip(), ""]
    parts.append("--helpfull lists the flags of the libraries, too.")
    return "\n".join(parts)


def _groups() -> list[tuple[str, str]]:
    """(title, absl's name of the module), this command's own first.

    What a command shares with others is defined before its own.
    """
    found = []
    for name, defined in flags.FLAGS.flags_by_module_dict().items():
        if not defined:
            continue
        module = sys.modules.get(name)
        if name.startswith("flags.") and module is not None:
            title = (module.__doc__ or name).strip().splitlines()[0]
            title = title.rstrip(".").removeprefix("Flags of ")
            title = title.removeprefix("Flags that ")
            found.append((title[:1].upper() + title[1:], name))
        elif name == sys.argv[0]:
            found.append((_OWN, name))
    return found[::-1]
