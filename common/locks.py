"""One process per output (L0): training, prediction, export, caches, records.

The system's lock (flock) lies on a small file beside the output, which also
says who holds it: process, host, start, command. The system lets go when the
process ends, however it ends, so that what a killed one left is nobody's.
File systems without such locks (some network ones) are served by what the file
says: a process of this host that is gone, or started later, holds nothing.
Object stores have no locks: there a note says who wrote last.
"""

import contextlib
import datetime
import errno
import fcntl
import json
import os
import platform
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from common import files
from common.errors import UserError

LOCK_NAME = ".lock"
_NOT_OWN = "{} is {}: wanted a file of this program or none; remove it"
_WAIT_SECONDS = 0.2
_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
# Path of a lock -> how often this process holds it, and which process that is:
# a fork inherits the table.
_held: dict[str, list[int]] = {}


def lock_path(output: str, is_folder: bool) -> str:
    """`FOLDER/.lock`, or `.NAME.lock` beside a file."""
    if is_folder:
        return os.path.join(output, LOCK_NAME)
    folder, name = os.path.split(output)
    return os.path.join(folder, f".{name}{LOCK_NAME}")


@contextlib.contextmanager
def held(
    output: str,
    is_folder: bool = True,
    wait: bool = False,
    say: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Holds an output for this process, which may hold it several times.

    Args:
      wait: wait for the process that holds it; else that is an error.
      say: takes lines for the user; standard error if not given.

    Raises:
      UserError: another process holds it, the message says which; or the
        lock's name leads to another file.
      OSError: nothing can be written there.
    """
    say = say or _to_stderr
    folder = output if is_folder else os.path.dirname(output)
    path = lock_path(output, is_folder)
    remote = files.is_remote(output)
    if not remote:
        # Of the folder alone: the lock itself must be no link (`_open`).
        place, name = os.path.split(path)
        path = os.path.join(os.path.realpath(place or "."), name)
    mine = _held.setdefault(path, [os.getpid(), 0])
    if mine[0] != os.getpid():
        mine[:] = [os.getpid(), 0]
    mine[1] += 1
    try:
        if mine[1] > 1:
            yield
            return
        if remote:
            with _noted(path, output, say):
                yield
            return
        with _folder(folder or "."), _taken(path, output, wait, say):
            yield
    finally:
        mine[1] -= 1


@contextlib.contextmanager
def new_file(output: str, inputs: Iterable[str] = ()) -> Iterator[None]:
    """Holds a file that a command makes behind long work; "" = none.

    Raises:
      UserError: it is there or an input, or another process makes it.
      OSError: it cannot be written.
    """
    if not output:
        yield
        return
    files.refuse_input(output, inputs)
    files.refuse_existing(output)
    files.check_output(output)
    with held(output, is_folder=False):
        files.refuse_existing(output)  # another one made it meanwhile
        yield


def remove_leftovers(folder: str, name: str) -> None:
    """What killed processes left; the lock, which is held, says that all are.

    Of remote folders nothing is removed.
    """
    if files.is_remote(folder):
        return
    for leftover in os.listdir(folder or "."):
        if not re.fullmatch(rf"\.{name}\.tmp-[0-9a-f]+(\..*)?", leftover):
            continue
        path = os.path.join(folder, leftover)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


@contextlib.contextmanager
def _folder(path: str) -> Iterator[None]:
    """Makes a folder; one that stays empty is removed again."""
    made_folders = []
    folder_to_make = os.path.abspath(path)
    while not os.path.lexists(folder_to_make):
        made_folders.append(folder_to_make)
        folder_to_make = os.path.dirname(folder_to_make)
    os.makedirs(path, exist_ok=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it is not empty
            for folder in made_folders:
                os.rmdir(folder)


@contextlib.contextmanager
def _taken(path: str, output: str, wait: bool, say) -> Iterator[None]:
    said = False
    while (file := _try(path, output)) is None:
        who = describe(_read(path))
        if not wait:
            raise UserError(
                f"{output} is in use by {who}; wait for it, or give another "
                "place"
            )
        if not said:
            say(f"waiting for {who}, which makes {output}")
        said = True
        time.sleep(_WAIT_SECONDS)
    try:
        with contextlib.suppress(OSError):  # a full disk: who asks learns less
            file.truncate(0)
            file.write(json.dumps(_me()).encode())
            file.flush()
        yield
    finally:
        # While it is held: who opened it before sees that it is gone.
        with contextlib.suppress(OSError):
            os.remove(path)
        with contextlib.suppress(OSError):
            file.close()


def _try(path: str, output: str) -> IO[bytes] | None:
    """The locked file, or None when another process has it."""
    while True:
        file = _open(path, output)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno not in _WITHOUT_LOCKS:
                file.close()
                return None
            if _is_alive(_read(path)):
                file.close()
                return None
        if _same_file(file, path):
            return file
        file.close()  # its holder removed it meanwhile


def open_own(path: str) -> IO[bytes]:
    """Opens a local file, new or old, to be read and added to.

    A name that leads to another file is refused: whoever may write into the
    folder could have any file of this user emptied.

    Raises:
      UserError: it is a link, has a second name, or is no ordinary file.
      OSError: it cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    safe = os.O_NOFOLLOW | os.O_NONBLOCK  # no link, no waiting for a pipe
    try:
        number = os.open(path, flags | safe, 0o666)
    except OSError as e:
        if not os.path.islink(path):
            raise
        raise UserError(_NOT_OWN.format(path, "a link")) from e
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(number)
        what = "a link" if stat.S_ISREG(status.st_mode) else "no ordinary file"
        raise UserError(_NOT_OWN.format(path, what))
    return open(number, "a+b")


def _open(path: str, output: str) -> IO[bytes]:
    """Opens a lock's file; its content is going to be replaced."""
    try:
        return open_own(path)
    except OSError as e:
        raise OSError(e.errno, os.strerror(e.errno or 0), output) from e


def _same_file(file: IO[bytes], path: str) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    mine = os.fstat(file.fileno())
    return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


@contextlib.contextmanager
def _noted(path: str, output: str, say) -> Iterator[None]:
    """Object stores: says whose note lies there, and leaves one."""
    note = _read(path)
    if note:
        say(
            f"note: {output} was last in use by {describe(note)}, which did "
            "not end as it should or still runs; object stores have no locks: "
            "make sure that it does not"
        )
    with contextlib.suppress(OSError):
        files.write_text(path, json.dumps(_me()))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            files.remove(path)


# --- Who ----------------------------------------------------------------------


def _me() -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "started": _started(os.getpid()),
        "since": now.isoformat("T", "seconds"),
        "command": os.path.basename(sys.argv[0] or "python"),
    }


def _read(path: str) -> dict[str, Any]:
    """What a lock's file says; {} when nothing can be told."""
    try:
        value = json.loads(files.read_bytes(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def describe(who: dict[str, Any]) -> str:
    """For messages: "process 12 (run_pretrain.py) on host a since ..."."""
    if not isinstance(who.get("pid"), int):
        return "another process"
    return (
        f"process {who['pid']} ({who.get('command')}) on host "
        f"{who.get('host')} since {who.get('since')}"
    )


def _started(pid: int) -> str | None:
    """When a process began, in the system's own units; None = no such one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


def _is_alive(who: dict[str, Any]) -> bool:
    """Whether the holder runs, as far as this host can know."""
    pid = who.get("pid")
    if not isinstance(pid, int):
        return False
    if who.get("host") != platform.node():
        return True
    if pid == os.getpid():
        return False
    started = _started(pid)
    if started is not None or os.path.isdir("/proc/self"):
        return started is not None and started == who.get("started")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
