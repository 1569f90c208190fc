"""Objects by name, so that a table can point at layers it must not import."""

import importlib
from typing import Any


def resolve(reference: str) -> Any:
    """The object that "module:name" stands for, or the module of "module"."""
    module, _, name = reference.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found
