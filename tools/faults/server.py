"""Tries cells of the table in forks of a process that has loaded TensorFlow.

Started by `tools.faults.run`: a request and an answer per line of JSON.
No operation runs before a fork: TensorFlow makes its threads with the first
one. Where the system allows it, output goes to a small file system of its own
(full, or read-only), which no other process sees; else a limit on the size of
files stands for the full disk, and read-only folders are not tried.
"""

import contextlib
import ctypes
import gc
import glob
import json
import os
import re
import resource
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from common import locks
from tools import mutant_server
from tools.faults import damage, steps, table, world
from tools.soak import starting

# XLA's note of its first compilation (I0000) comes in good runs, too.
NOISE = re.compile(
    r"Traceback|^WARNING(?!: All log messages)|^[WEF]\d{4} |\w+Warning:|"
    r"Exception ignored|tensorflow/(core|compiler|python)"
)
_CLONE_NEWNS = 0x20000
_NEARLY_FULL = 3000  # bytes that may still be written
_SECONDS = 600  # the machine may be busy
_PRELOADED = (
    *mutant_server.PRELOADED,
    "tensorflow_text",
    "modeling",
    "training.loop",
    "training.finetuning.command",
    "serving.export.exporter",
    "serving.generation.language_model",
    "serving.web.app",
    "data.records.build",
)


def preload() -> None:
    """Loads what commands import, so that a fork need not."""
    mutant_server.preload(_PRELOADED)
    gc.collect()
    gc.freeze()


class Runner:
    """Makes the world and tries cells."""

    def __init__(self, folder: str):
        self.folder = os.path.abspath(folder)
        self.world = os.path.join(self.folder, "world")
        os.makedirs(self.world, exist_ok=True)
        self.can_mount = _own_mounts()

    def path_of(self, name: str) -> str:
        """An input of the world; it is made when it is not there."""
        file_name, recipe = world.RECIPES[name]
        path = os.path.join(self.world, file_name)
        if os.path.exists(path):
            return path
        if callable(recipe):
            recipe(path)
            return path
        module, *arguments = self._fill(recipe)
        status, text = self._run(module, arguments)
        if status:
            raise RuntimeError(f"{module} of the world failed:\n{text}")
        return path

    def _fill(self, arguments) -> list[str]:
        """Paths in the place of names."""

        def path(match) -> str:
            name = match[1]
            return self.world if name == "world" else self.path_of(name)

        return [re.sub(r"\{(\w+)\}", path, a) for a in arguments]

    def try_cell(self, cell: table.Cell) -> dict:
        """What came of it; see `run.Outcome`."""
        command = table.command_named(cell.command)
        scratch = os.path.join(self.folder, "cell")
        shutil.rmtree(scratch, ignore_errors=True)
        out = os.path.join(scratch, "out")
        os.makedirs(out)
        paths = {"out": out}
        for name in command.inputs:
            paths[name] = self.path_of(name)
        if cell.input in command.inputs:
            kind = command.inputs[cell.input]
            copy = _copy(paths[cell.input], scratch)
            if kind in damage.STEPS:
                steps.mark(copy)
            paths[cell.input] = damage.KINDS[kind][cell.fault](copy)
        elif cell.fault == table.INTERRUPTED and not command.writes:
            for name in command.inputs:  # a run writes into its folder
                paths[name] = _copy(paths[name], scratch)
        arguments = [a.format(**paths) for a in command.arguments]
        watched = [p for p in paths.values() if p.startswith(scratch)]
        before = steps.look(paths.get(cell.input, ""))
        begin = time.monotonic()
        limit = None
        victim = os.path.join(scratch, "victim")
        with contextlib.ExitStack() as stack:
            if cell.input == table.OUTPUT:
                if cell.fault == "read-only" and not self.can_mount:
                    return {"skipped": "no file system can be mounted here"}
                held_path = os.path.join(out, command.locks)
                if cell.fault == table.IN_USE:
                    stack.enter_context(_in_use(held_path))
                elif cell.fault == table.PLANTED:
                    _plant(held_path, victim)
                else:
                    limit = self._prepare_output(stack, cell.fault, out)
            status, text = self._run(
                command.module,
                arguments,
                limit,
                interrupted=cell.fault == table.INTERRUPTED,
            )
            left = _leftovers(watched)
            left += _harmed(victim, cell.fault == table.PLANTED)
        return {
            "status": status,
            "text": text,
            "said": self._said(),
            "left": left,
            "seconds": time.monotonic() - begin,
            "before": before,
            "after": steps.look(paths.get(cell.input, "")),
        }

    def _said(self) -> str:
        """Standard output of the last command."""
        with open(self._output, errors="replace") as f:
            return f.read()

    @property
    def _output(self) -> str:
        return os.path.join(self.folder, "said.txt")

    def _prepare_output(self, stack, fault: str, out: str) -> int | None:
        """Makes `out` bad; the limit on sizes of files, if that is the way."""
        if fault == "a file in its way":
            os.rmdir(out)
            with open(out, "w") as f:
                f.write("a file\n")
            return None
        room = _NEARLY_FULL if fault == "nearly full disk" else 0
        if not self.can_mount:
            return room
        _mount("-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "tmpfs", out)
        stack.callback(_unmount, out)
        if fault == "read-only":
            _mount("-o", "remount,ro", out)
            return None
        with (
            contextlib.suppress(OSError),
            open(os.path.join(out, "ballast"), "wb", buffering=0) as f,
        ):
            while f.write(b"x" * 512):
                pass
        if room:  # whole pages of 4096 bytes
            os.truncate(os.path.join(out, "ballast"), (64 << 10) - 4096)
        return None

    def _run(
        self, module, arguments, limit=None, interrupted=False
    ) -> tuple[int, str]:
        """Exit status and standard error of a command in a fork."""
        sys.stdout.flush()
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            out = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            _child(module, arguments, writer, limit, interrupted, self.folder)
        os.close(writer)
        signal.alarm(_SECONDS)
        with os.fdopen(reader, "rb") as f:
            try:
                text = f.read().decode(errors="replace")
                _, status = os.waitpid(child, 0)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return -1, f"no end after {_SECONDS} s"
            finally:
                signal.alarm(0)
        return os.waitstatus_to_exitcode(status), text


def _is_folder(place: str) -> bool:
    return not os.path.splitext(place)[1]


def _plant(place: str, victim: str) -> None:
    """The lock of an output is a link to a file of this user."""
    with open(victim, "w") as f:
        f.write("mine")
    if _is_folder(place):
        os.makedirs(place)
    os.symlink(victim, locks.lock_path(place, _is_folder(place)))


def _harmed(victim: str, planted: bool) -> list[str]:
    """The file behind a planted link, if it is another one now."""
    if not planted:
        return []
    try:
        with open(victim) as f:
            return [victim] * (f.read() != "mine")
    except FileNotFoundError:
        return [victim]


@contextlib.contextmanager
def _in_use(place: str) -> Iterator[None]:
    """Another process holds the output: a folder, or a file."""
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            here.close()
            with locks.held(place, _is_folder(place)):
                there.send(b"x")
                there.recv(1)  # until the other end is closed
        os._exit(0)
    there.close()
    with here:
        here.recv(1)
        yield
    os.waitpid(child, 0)


def _child(module, arguments, writer, limit, interrupted, folder) -> None:
    """Runs the command as `python -m` does; never returns."""

    def run() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(writer, 2)
        sys.argv = [module, *arguments]
        if interrupted:
            _interrupt_at_first_open(folder)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    starting.end_with(run)


def _interrupt_at_first_open(folder: str) -> None:
    """Ctrl-C when the command touches its first file."""
    done = []

    def hook(event, arguments):
        if event not in ("open", "os.listdir", "os.mkdir") or done:
            return
        if str(arguments[0]).startswith(folder):
            done.append(True)
            # In the background of a shell it is ignored.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.raise_signal(signal.SIGINT)

    sys.addaudithook(hook)


def _copy(path: str, scratch: str) -> str:
    """A copy that may be spoiled."""
    target = os.path.join(scratch, os.path.basename(path))
    if os.path.isdir(path):
        shutil.copytree(path, target)
    else:
        shutil.copy(path, target)
    return target


def _leftovers(folders: list[str]) -> list[str]:
    """Half-written files: temporary names and unfinished checkpoints."""
    paths = []
    for folder in folders:
        for pattern in ("*.tmp-*", ".*.tmp-*", "*_temp", "*.tempstate*"):
            paths += glob.glob(
                os.path.join(glob.escape(folder), "**", pattern),
                recursive=True,
                include_hidden=True,
            )
    return sorted(set(paths))


def _own_mounts() -> bool:
    """A view of the file systems of this process' own, if it may have one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        return False
    try:
        _mount("--make-rprivate", "/")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, stderr=subprocess.DEVNULL)


def _unmount(path: str) -> None:
    subprocess.run(["umount", path], check=True)


def _too_long(number, frame):
    raise TimeoutError


def main() -> None:
    """Answers until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGALRM, _too_long)
    preload()
    runner = Runner(sys.argv[1])
    for line in sys.stdin:
        answer = runner.try_cell(table.Cell(**json.loads(line)))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
