"""Packages that only some commands need, imported when they are asked for."""

import importlib
from types import ModuleType

from common.errors import UserError


def load(name: str, purpose: str, requirements: str) -> ModuleType:
    """The package, which the requirements file pins.

    Raises UserError, which begins with `purpose`: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise UserError(
            f"{purpose} needs the package {name} ({e}): pip install -r "
            f"{requirements}"
        ) from e
