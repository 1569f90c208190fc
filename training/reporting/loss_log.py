"""`losses.tsv`: one line per step, cut to the step that a run goes on from.

Values are written so that float32 reads back to the same bits, so two runs
can be compared with `cmp`.
"""

import os

import numpy as np

from common import files
from common.errors import UserError

FILE_NAME = "losses.tsv"
# A model has left the unigram plateau where the mean loss of so many steps is
# so many nats below the unigram entropy.
PLATEAU_STEPS = 20
PLATEAU_MARGIN = 0.5


class LossLog:
    """Appends steps; every append reaches the disk before a save can follow."""

    def __init__(self, model_dir: str, start_step: int):
        self.path = os.path.join(model_dir, FILE_NAME)
        self._header: str | None = None
        kept = _lines_up_to(self.path, start_step)
        self._text = "".join(line + "\n" for line in kept)
        if kept:
            self._header = kept[0]
        # What an earlier process wrote beyond `start_step` comes again.
        files.write_text(self.path, self._text)

    def append(self, first_step: int, names: list[str], rows: np.ndarray):
        """Adds float32 [steps, columns] of `first_step` (from 1), and on.

        Raises UserError: the disk is full, or the columns changed.
        """
        header = "\t".join(["step", *names])
        text = ""
        if self._header is None:
            text = header + "\n"
        elif self._header != header:
            raise UserError(
                f"{self.path}: wanted the columns {self._header!r}, this run "
                f"has {header!r}; move the file away or use another --model_dir"
            )
        for i, row in enumerate(rows):
            values = [format_float32(v) for v in row]
            text += "\t".join([str(first_step + i), *values]) + "\n"
        self._write(text)
        self._header = header

    def _write(self, text: str) -> None:
        try:
            if files.is_remote(self.path):
                # Object stores cannot append; the file is small.
                self._text += text
                files.write_text(self.path, self._text)
                return
            # Not "a": a file that is gone would begin without its header.
            with open(self.path, "r+b") as f:
                f.seek(0, os.SEEK_END)
                f.write(text.encode())
                f.flush()
                os.fsync(f.fileno())
        except OSError as e:
            raise UserError(f"cannot write {self.path}: {e}") from e


def format_float32(value: float) -> str:
    """The shortest text that reads back to the same float32."""
    return str(np.float32(value))


def read(model_dir: str) -> tuple[list[str], np.ndarray]:
    """(column names without `step`, float64 [steps, 1 + columns]).

    Half a line, which a killed run may leave, is left out. Raises UserError:
    no step was logged, or a line is no row of numbers.
    """
    names, rows = read_begun(model_dir)
    if not len(rows):
        path = os.path.join(model_dir, FILE_NAME)
        raise UserError(f"{path}: wanted a line per step, found none: train it")
    return names, rows


def read_begun(model_dir: str) -> tuple[list[str], np.ndarray]:
    """`read` of a run that has perhaps not logged a step: no rows then."""
    path = os.path.join(model_dir, FILE_NAME)
    lines = _whole_lines(files.read_bytes(path))
    if len(lines) < 2:
        return [], np.zeros((0, 1))
    try:
        rows = [[float(x) for x in line.split("\t")] for line in lines[1:]]
        names = lines[0].split("\t")[1:]
        return names, np.array(rows).reshape(len(rows), 1 + len(names))
    except ValueError as e:
        raise UserError(f"{path}: wanted rows of numbers ({e})") from e


def plateau_end(model_dir: str, unigram_entropy: float) -> int | None:
    """The step at which a run has left the unigram plateau, None before it.

    The entropy is in nats per target.
    """
    steps, losses = of_targets(*read(model_dir))
    if len(steps) < PLATEAU_STEPS:
        return None
    window = np.full(PLATEAU_STEPS, 1 / PLATEAU_STEPS)
    means = np.convolve(losses, window, "valid")
    below = np.flatnonzero(means < unigram_entropy - PLATEAU_MARGIN)
    return int(steps[below[0] + PLATEAU_STEPS - 1]) if below.size else None


def of_targets(
    names: list[str], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(steps [n], their losses in nats per target [n]) of what `read` gives.

    `lm_loss` where pairs of sentences have a loss, too. Steps without a target,
    whose loss is 0, are left out.
    """
    column = names.index("lm_loss" if "lm_loss" in names else "loss")
    losses = rows[:, 1 + column]
    return rows[losses != 0, 0], losses[losses != 0]


def _lines_up_to(path: str, step: int) -> list[str]:
    """The header and the whole lines of steps 1..step."""
    try:
        lines = _whole_lines(files.read_bytes(path))
    except FileNotFoundError:
        return []
    if not lines or step == 0:
        return []
    kept = [lines[0]]
    for line in lines[1:]:
        number = line.split("\t", 1)[0]
        if not number.isdecimal() or int(number) > step:
            break
        kept.append(line)
    return kept


def _whole_lines(content: bytes) -> list[str]:
    """Lines with their newline: a process killed while writing leaves half."""
    return content.decode("utf-8", errors="replace").split("\n")[:-1]
