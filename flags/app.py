"""How every command starts: strict flags, one-line errors, exit status.

What the user can put right is one line (`UserError`, and what `flags.faults`
knows); a mistake of the program keeps its stack trace.
"""

import logging as standard_logging
import os
import re
import sys
from collections.abc import Callable

from absl import app, flags, logging

from common.errors import Stopped, UserError, printable
from common.process import clock, ending, memory, terminal
from flags import faults, help_text, other_names
from flags.training import hub_flags, strategy_flags

_INTERRUPTED = "interrupted; the same command resumes or starts over"
_REQUIRED = "must have a value other than None"  # absl's of such flags
_MISSING = re.compile(rf"flag --(\w+)=None: Flag --\w+ {_REQUIRED}\.")
_TEXTS = ("text", "prompt")  # flags whose value may begin like a path


def run(main: Callable[[], None]) -> None:
    """Parses the flags strictly and calls `main()`.

    A `UserError`, a wrong, unknown or missing flag and the faults of disks and
    files become one line on standard error and exit status 1; surplus
    positional arguments are refused. Ctrl-C ends with
    status 130, SIGTERM with 143, a closed terminal with 129, a training that was
    stopped on request with that of `Stopped`, a closed pipe of the output
    silently.
    """

    def call(argv: list[str]) -> None:
        if len(argv) > 1:
            fail(f"unexpected argument {argv[1]!r}: options start with --")
        if not flags.FLAGS["verbosity"].present:
            # Libraries report every file they write; --verbosity=0 shows it.
            logging.set_verbosity(logging.WARNING)
            standard_logging.getLogger("tensorflow").addFilter(_is_news)
        try:
            _check_home()
            _check_empty()
            _check_tpu()
            ending.watch()
            hub_flags.make_local()
            with clock.command():
                main()
            sys.stdout.flush()
        except KeyboardInterrupt as e:
            fail(_INTERRUPTED, getattr(e, "status", 130))
        except Stopped as stop:
            sys.stdout.flush()
            sys.exit(stop.status)
        except BrokenPipeError:
            _end_of_output()
        except Exception as e:
            line = faults.line_of(e)
            if line is None:
                raise
            fail(line)

    sys.stdout = terminal.guarded(sys.stdout)
    sys.stderr = terminal.guarded(sys.stderr)
    if help_text.asked(sys.argv[1:]):
        try:
            print(help_text.text(sys.argv[1:]), flush=True)
        except BrokenPipeError:
            _end_of_output()
        return
    if line := other_names.hint(sys.argv[1:], flags.FLAGS):
        fail(line)
    app.run(call, flags_parser=_parse)


def _parse(argv: list[str]) -> list[str]:
    """What is left of the arguments; ends where a flag is wrong."""
    try:
        return flags.FLAGS(argv)
    except flags.Error as e:
        fail(_line_of_flags(str(e)))


def _line_of_flags(text: str) -> str:
    """absl's lines about flags, as one; those that are missing together."""
    missing = [f"--{name}" for name in _MISSING.findall(text)]
    rest = _MISSING.sub("", text).splitlines()
    lines = [
        line.strip().removeprefix("ERROR:: ").removesuffix(" ?")
        for line in rest
    ]
    parts = [f"wanted {', '.join(missing)}: give a value"] if missing else []
    parts += [line for line in lines if line]
    return f"{'; '.join(parts)}; --help lists the flags"


def _is_news(record: standard_logging.LogRecord) -> bool:
    """A trace for every length of a batch is meant; TensorFlow warns of it."""
    return "triggered tf.function retracing" not in record.getMessage()


def _end_of_output() -> None:
    """Who read the output is gone; Python's last flush would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


def _check_home() -> None:
    """UserError: a path begins with `~`, which would be a folder of that name.

    The shell expands it at the beginning of a word alone.
    """
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if not flag.present or name in _TEXTS:
            continue
        values = flag.value if isinstance(flag.value, list) else [flag.value]
        texts = [value for value in values if isinstance(value, str)]
        for part in (part for text in texts for part in text.split(",")):
            if part == "~" or part.startswith("~/"):
                raise UserError(
                    f"--{name}: wanted a path, found {part}: the shell does "
                    f'not expand ~ behind =, give "$HOME"{part[1:]}'
                )


def _check_empty() -> None:
    """UserError: a flag that must be given is an empty text.

    `--output_dir="$OUT"` without OUT would write where the command runs.
    """
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if name in _TEXTS or flag.value != "":
            continue
        if any(_REQUIRED in (v.message or "") for v in flag.validators):
            raise UserError(
                f"--{name}: wanted a value, found an empty text; a variable of "
                "the shell may not be set"
            )


def _check_tpu() -> None:
    """Before TensorFlow is imported, which a wrong driver makes abort.

    Commands that run on a TPU import it in `main`.
    """
    if "use_tpu" in flags.FLAGS and strategy_flags.on_tpu():
        from common.process import tpu_build

        tpu_build.check(strategy_flags.tpu_address())


def fail(message: str, status: int = 1) -> None:
    """Prints `error: message` on standard error and exits."""
    print(f"error: {printable(message)}", file=sys.stderr, flush=True)
    sys.exit(status)


def _while_loading(kind, error, trace) -> None:
    """Ctrl-C while the libraries are loaded is one line, too."""
    if issubclass(kind, KeyboardInterrupt):
        print(f"error: {_INTERRUPTED}", file=sys.stderr, flush=True)
    elif issubclass(kind, UserError):
        print(f"error: {error}", file=sys.stderr, flush=True)
    else:
        sys.__excepthook__(kind, error, trace)


class _BeforeTensorFlow:
    """Without memory for TensorFlow one line, not the end by a signal."""

    def find_spec(self, fullname, path=None, target=None):
        """Finds nothing; looks at the memory when TensorFlow is asked for."""
        if fullname == "tensorflow":
            memory.check_libraries()


sys.meta_path.insert(0, _BeforeTensorFlow())
# Commands import this before they load TensorFlow, which takes seconds.
sys.excepthook = _while_loading
