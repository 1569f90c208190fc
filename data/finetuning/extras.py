"""The optional packages of document ranking, imported when they are needed."""

import importlib
from types import ModuleType

from common.errors import UserError

REQUIREMENTS = "requirements-ranking.txt"


def load(name: str) -> ModuleType:
    """The package, which the requirements file pins."""
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise UserError(
            f"document ranking needs the package {name} ({e}): pip install -r "
            f"{REQUIREMENTS}"
        ) from e
