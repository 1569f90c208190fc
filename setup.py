"""Puts the top-level folders and `run_*.py` into `xlnet_tf2/library`.

What they are called in a checkout they are called there, too; `xlnet_tf2`
opens that folder when it is imported. All else stands in `pyproject.toml`.
"""

import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
FOLDERS = ("common", "data", "flags", "modeling", "serving", "training")


def library_files() -> list[pathlib.Path]:
    """Relative paths of all files of the library."""
    paths = list(ROOT.glob("run_*.py"))
    for folder in FOLDERS:
        for pattern in ("**/*.py", "**/*.html", "**/*.toml"):
            paths += ROOT.joinpath(folder).glob(pattern)
    return sorted(path.relative_to(ROOT) for path in paths)


class BuildLibrary(build_py):
    """`build_py` that brings the library along."""

    def run(self) -> None:
        """Copies the package, then the library; an editable one is in place."""
        super().run()
        if self.editable_mode:
            return
        for path in library_files():
            target = pathlib.Path(self.build_lib, "xlnet_tf2/library", path)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(ROOT / path), str(target))


setup(cmdclass={"build_py": BuildLibrary})
