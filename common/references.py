"""Objects by name, so that a table can point at layers it must not import."""

import importlib
from typing import Any


def resolve(reference: str) -> Any:
    """The object that "module:name" stands for."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
