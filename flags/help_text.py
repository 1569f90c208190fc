"""`--help`: what a command is for, then its flags by subject."""

import sys

from absl import flags

from flags import flag_values

SHORT = ("--help", "-help", "-h", "--helpshort", "-helpshort")
FULL = ("--helpfull", "-helpfull")
# A command with more flags shows those that most people need.
MANY = 25
OWN = "This command"


def asked(argv: list[str]) -> bool:
    """Whether help is wanted."""
    return any(argument in SHORT + FULL for argument in argv)


def text(argv: list[str]) -> str:
    """The main module's docstring and flags by subject."""
    full = any(argument in FULL for argument in argv)
    main = sys.modules["__main__"]
    parts = [(main.__doc__ or "").strip(), ""]
    by_module = flags.FLAGS.flags_by_module_dict()
    count = sum(len(by_module[module]) for _, module in groups())
    short = not full and count > MANY
    for title, module in groups():
        shown = [
            flag
            for flag in by_module[module]
            if not short or flag.name in flag_values.often
        ]
        if shown:
            parts += [f"{title}:", _help_of(shown), ""]
    if full:
        for module in sorted(m for m in by_module if m.startswith("absl.")):
            parts += [f"{module}:", _help_of(by_module[module]), ""]
    more = f"{count} flags in all, and absl's" if short else "Flags of absl"
    parts.append(f"{more}: --helpfull; docs/reference/flags.md says the same.")
    return "\n".join(parts[:-1] if full else parts)


def _help_of(shown: list[flags.Flag]) -> str:
    """As absl writes it."""
    values = flags.FlagValues()
    for flag in shown:
        flags.DEFINE_flag(flag, values, module_name=OWN)
    return values.module_help(OWN).split(":\n", 1)[-1].rstrip()


def groups() -> list[tuple[str, str]]:
    """(title, absl's name of the module), this command's own first.

    What a command shares with others is defined before its own.
    """
    titled = []
    for name, defined in flags.FLAGS.flags_by_module_dict().items():
        if not defined:
            continue
        module = sys.modules.get(name)
        if name.startswith("flags.") and module is not None:
            title = (module.__doc__ or name).strip().splitlines()[0]
            title = title.rstrip(".").removeprefix("Flags of ")
            title = title.removeprefix("Flags that ")
            if not title.startswith("run_"):
                title = title[:1].upper() + title[1:]
            titled.append((title, name))
        elif name == sys.argv[0]:
            titled.append((OWN, name))
    return sorted(titled[::-1], key=lambda group: group[0] != OWN)
