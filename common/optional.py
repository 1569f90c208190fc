"""Packages that only some commands need, imported when they are asked for."""

import importlib
import pathlib
from types import ModuleType

from common.errors import UserError

# The folder of the requirements' files in a checkout; `pip install .` makes
# extras of these (pyproject.toml) and leaves the files behind.
ROOT = pathlib.Path(__file__).parents[1]
EXTRAS = ("corpus", "hub", "ranking", "serve", "tokenizers")


def load(name: str, purpose: str, requirements: str) -> ModuleType:
    """The package, which the requirements file pins.

    Raises UserError, which begins with `purpose`: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise UserError(
            f"{purpose} needs the package {name} ({e}): {cure(requirements)}"
        ) from e


def cure(requirements: str) -> str:
    """How to install the packages of a file such as requirements-hub.txt."""
    extra = requirements.removeprefix("requirements-").removesuffix(".txt")
    if extra in EXTRAS and not (ROOT / requirements).exists():
        return f"pip install 'xlnet-tf2[{extra}]'"
    return f"pip install -r {requirements}"
