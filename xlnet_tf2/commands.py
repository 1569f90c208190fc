"""Console entry points: `xlnet-classifier` is `python run_classifier.py`.

Every command is a function without arguments here, by its module's name with
`_` for `.`; what trains begins with `run_`. `pyproject.toml` gives them their
names.
"""

import functools
import importlib.util
import runpy

import xlnet_tf2


def run(module: str) -> None:
    """What `python -m MODULE` does, with the library of this package."""
    # Worker processes find the command by its name, as `python -m` leaves it.
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def __getattr__(name: str):
    first, _, rest = name.partition("_")
    module = name if first == "run" else f"{first}.{rest}"
    if first in ("run", *xlnet_tf2.LIBRARY) and importlib.util.find_spec(
        module
    ):
        return functools.partial(run, module)
    raise AttributeError(name)
