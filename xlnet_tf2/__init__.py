"""XLNet on TensorFlow 2 as one installed package.

    from xlnet_tf2.modeling import XLNetConfig, ClassificationModel
    from xlnet_tf2.serving.saved_model import SavedModel

`xlnet_tf2.NAME` is the library's own module `NAME` (`modeling`, `training`,
`data`, `serving`, `common`, `flags` and all below them), not a copy: a class is
the same by both names. The library lies beside this file, in `library/`, where
it was installed, and one folder up in a checkout. Both are put behind
everything else on the path: the library's short names never hide another
package's.

Raises:
  ImportError: one of the library's names already belongs to another package.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

LIBRARY = ("common", "data", "flags", "modeling", "serving", "training")
_HERE = os.path.dirname(os.path.abspath(__file__))
_INSTALLED = os.path.join(_HERE, "library")
ROOT = _INSTALLED if os.path.isdir(_INSTALLED) else os.path.dirname(_HERE)


class _Library(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `xlnet_tf2.NAME` as the module `NAME`."""

    def find_spec(self, fullname, path=None, target=None):
        """The spec of a library's module by its long name; else None."""
        name = fullname.removeprefix(__name__ + ".")
        if name == fullname or name.split(".")[0] not in LIBRARY:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=name)

    def create_module(self, spec):
        """The module itself, whose own spec `exec_module` gives back."""
        module = importlib.import_module(spec.loader_state)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """It has run already."""
        module.__spec__ = module.__spec__.loader_state


def _open_library() -> None:
    if ROOT not in map(os.path.abspath, sys.path):
        sys.path.append(ROOT)
    for name in LIBRARY:
        spec = importlib.util.find_spec(name)
        package_root = os.path.dirname(os.path.dirname(spec.origin or ""))
        if os.path.realpath(package_root) != os.path.realpath(ROOT):
            raise ImportError(
                f"xlnet_tf2 needs the name {name!r}, which is {spec.origin}: "
                "take that off sys.path, or rename it"
            )
    sys.meta_path.insert(0, _Library())


_open_library()
