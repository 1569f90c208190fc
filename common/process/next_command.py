"""The last line of a command: what to run next (L0)."""

import pathlib
import shlex

# The folder of the commands; `pip install .` puts it into xlnet_tf2/library,
# where `python -m` finds none of them.
ROOT = pathlib.Path(__file__).parents[2]


def line(*words: str) -> str:
    """`next: python ...`, or `next: xlnet-...` of an installed library.

    As a shell takes it:

    >>> line("run_lm.py", "--data_dir=my records")
    "next: python run_lm.py '--data_dir=my records'"
    """
    if ROOT.parts[-2:] != ("xlnet_tf2", "library"):
        return f"next: {shlex.join(('python', *words))}"
    module, *rest = words[1:] if words[0] == "-m" else words
    name = module.removesuffix(".py").split(".")[-1].removeprefix("run_")
    return f"next: {shlex.join((f'xlnet-{name}'.replace('_', '-'), *rest))}"
