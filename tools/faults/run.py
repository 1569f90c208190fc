"""Asks the server for cells and judges what came of them."""

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator

from tools.faults import damage, steps
from tools.faults.server import NOISE
from tools.faults.table import INTERRUPTED, OUTPUT, Cell, command_named

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)

_SERVER = "from tools.faults import server; server.main()"

# What a terminal would obey; a progress bar returns to its line's start.
_RAW = re.compile(r"[^\n\t -~\xa0-\U0010ffff]")
_BAR = re.compile(r"\r\w+: +\d+%\|[^\r\n]*")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a command did.

    Attributes:
      cell: what was tried.
      status: its exit status.
      text: its standard error.
      said: its standard output.
      left: half-written files.
      seconds: that it took.
      before: what `steps.look` found after the fault.
      after: the same after the command.
      skipped: why it was not tried, or "".
    """

    cell: Cell
    status: int = 0
    text: str = ""
    said: str = ""
    left: tuple[str, ...] = ()
    seconds: float = 0.0
    before: dict = dataclasses.field(default_factory=dict)
    after: dict = dataclasses.field(default_factory=dict)
    skipped: str = ""

    @property
    def line(self) -> str:
        """The error."""
        lines = [x for x in self.text.splitlines() if x.startswith("error: ")]
        return lines[-1] if lines else ""

    def problem(self) -> str:
        """What is wrong with it; "" = it was held."""
        if self.skipped:
            return ""
        lines = self.text.splitlines()
        noise = [x for x in lines if NOISE.search(x)]
        wanted = self._wanted_status()
        if "Traceback" in self.text:
            return f"a stack trace: {lines[-1][:200]}"
        if damage.is_strange(self.cell.fault) and self.status in (0, 1):
            wanted = self.status
        if self.status != wanted:
            return f"exit status {self.status}: {self.text[-200:]!r}"
        if _RAW.search(_BAR.sub("", self.text)):
            return f"a control character: {self.text[-200:]!r}"
        if noise:
            return f"noise: {noise[0][:200]}"
        if self.left:
            return f"left behind: {', '.join(self.left)}"
        said = self._problem_of_the_line() if wanted else ""
        taken = damage.is_strange(self.cell.fault) and not wanted
        if said or taken or not self._has_steps():
            return said
        said = self.said + self.text
        return steps.problem(
            self.cell.fault, self.status, said, self.before, self.after
        )

    def _wanted_status(self) -> int:
        if self.cell.fault == INTERRUPTED:
            return 130
        return int(self.cell.fault not in damage.GOES_ON)

    def _has_steps(self) -> bool:
        kind = command_named(self.cell.command).inputs.get(self.cell.input)
        return kind in damage.STEPS

    def _problem_of_the_line(self) -> str:
        lines = self.text.splitlines()
        errors = [x for x in lines if x.startswith("error: ")]
        if len(errors) != 1 or lines[-1] != errors[0]:
            return f"wanted one line of error at the end: {self.text[-300:]!r}"
        if self.status == 1 and not self._names_a_file():
            return f"names no file: {errors[0][:300]}"
        return ""

    def _names_a_file(self) -> bool:
        field = " of the configuration " in self.line
        if field and self.cell.fault in damage.SIZES:
            return True
        folder = "out" if self.cell.input == OUTPUT else ""
        return f"/cell/{folder}" in self.line or (
            bool(folder) and "--output" in self.line
        )


class Server:
    """The process of `tools.faults.server`."""

    def __init__(self, folder: str):
        environment = os.environ | {
            "CUDA_VISIBLE_DEVICES": "",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, folder],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def try_cell(self, cell: Cell) -> Outcome:
        """Tries one.

        Raises:
          RuntimeError: the server ended.
        """
        self._process.stdin.write(json.dumps(dataclasses.asdict(cell)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server of the faults ended")
        answer = json.loads(line)
        answer["left"] = tuple(answer.get("left", ()))
        return Outcome(cell, **answer)

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@contextlib.contextmanager
def server(folder: str) -> Iterator[Server]:
    """A server that ends with the block."""
    faulted_server = Server(folder)
    try:
        yield faulted_server
    finally:
        faulted_server.close()
