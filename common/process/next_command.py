"""The last line of a command: what to run next (L0)."""

import shlex


def line(*words: str) -> str:
    """`next: python ...`, as a shell takes it.

    >>> line("run_lm.py", "--data_dir=my records")
    "next: python run_lm.py '--data_dir=my records'"
    """
    return f"next: {shlex.join(('python', *words))}"
