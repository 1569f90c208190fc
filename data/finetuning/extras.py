"""The optional packages of document ranking, imported when they are needed."""

import importlib
from types import ModuleType

from common.errors import UserError

REQUIREMENTS = "requirements-ranking.txt"


def load(name: str, requirements: str = REQUIREMENTS) -> ModuleType:
    """The package, which a requirements file pins.

    Raises:
      UserError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise UserError(
            f"document ranking needs the package {name} ({e}): pip install -r "
            f"{requirements}"
        ) from e
