"""Objects by name, so that a table can point at layers it must not import."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def resolve(reference: str) -> Any:
    """The object that "module:name" stands for, or the module of "module"."""
    module, _, name = reference.partition(":")
    module_object = importlib.import_module(module)
    return getattr(module_object, name) if name else module_object


def on_demand(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """`__getattr__` of a package that imports a name when it is asked for."""

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        return resolve(f"{modules[name]}:{name}")

    return __getattr__
