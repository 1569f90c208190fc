"""A folder that looks like an environment, whose processes are forks.

    python -m tests.helpers.forks.environment

prints the folder and answers until its standard input ends. `bin/python` takes
a command as the real one does, and so do the processes that it starts. As
`VENV` of scripts/setup.sh it needs nothing installed.
"""

import pathlib
import shutil
import socket
import sys
import tempfile

from tests.helpers.forks import python, server


def main() -> None:
    """Makes it, serves it, removes it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="forks-"))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
            listener.listen(64)
            _write(folder)
            print(folder, flush=True)
            server.main(listener)
    finally:
        shutil.rmtree(folder)


def _write(folder: pathlib.Path) -> None:
    (folder / "bin").mkdir()
    source = pathlib.Path(python.__file__).read_text(encoding="utf-8")
    for old, new in (
        ("PYTHON = sys.executable", f"PYTHON = {sys.executable!r}"),
        ('SOCKET = ""', f"SOCKET = {str(folder / 'socket')!r}"),
    ):
        assert source.count(old) == 1
        source = source.replace(old, new)
    script = folder / "bin" / "python"
    # No site-packages are searched: it imports a few modules of Python.
    script.write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
    script.chmod(0o755)
    for stamp in pathlib.Path(sys.prefix).glob(".installed-*"):
        (folder / stamp.name).touch()


if __name__ == "__main__":
    main()
