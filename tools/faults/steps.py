"""What became of the steps of a run that met a fault.

A command that begins anew ends well, too; so the exit status says nothing of
the steps. Before the fault every row of the log of losses gets a value that no
training writes: rows that still have it were not trained again.
"""

import glob
import os
import re

from tools.faults import damage

_LOG = "losses.tsv"
_WHOLE = ".index"
# Lines that say whose weights a command read.
_OF_WEIGHTS = re.compile(
    r"^weights +\S.*|.* averaged over 1 checkpoints: .*", re.MULTILINE
)
_STEP = re.compile(r"model\.ckpt-(\d+)")


def mark(folder: str) -> None:
    """Gives the rows of the log a value that no training writes."""
    path = os.path.join(folder, _LOG)
    with open(path, encoding="utf-8") as f:
        header, *rows = f.read().splitlines()
    rows = [f"{row.rsplit(chr(9), 1)[0]}\t{i}.25" for i, row in enumerate(rows)]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join([header, *rows]) + "\n")


def look(folder: str) -> dict[str, list[str]]:
    """The rows of the log and the names of the checkpoints of a folder."""
    path = os.path.join(folder, _LOG)
    rows = []
    if os.path.isfile(path):
        with open(path, encoding="utf-8") as f:
            rows = f.read().splitlines()[1:]
    checkpoint_paths = glob.glob(
        os.path.join(glob.escape(folder), "*" + _WHOLE)
    )
    return {
        "rows": rows,
        "checkpoints": sorted(map(os.path.basename, checkpoint_paths)),
    }


def problem(fault: str, status: int, said: str, before, after) -> str:
    """What is wrong with the steps; "" = they were kept or continued.

    Args:
      fault: of a folder with steps, before which the log was marked.
      status: exit status of the command.
      before: `look` after the fault.
      after: `look` after the command.
    """
    rows, marked = after["rows"], before["rows"]
    lost = set(before["checkpoints"]) - set(after["checkpoints"])
    if status:
        if rows != marked or lost:
            return f"it stopped, and steps were lost: {rows}, {sorted(lost)}"
        return ""
    step = damage.GOES_ON[fault]
    if rows == marked:  # an evaluation, a reader
        read = set(_STEP.findall("\n".join(_OF_WEIGHTS.findall(said))))
        if read != {str(step)}:
            return f"wanted the weights of step {step}, found {read}: {said!r}"
    else:
        numbers = [row.split("\t")[0] for row in rows]
        if rows[:step] != marked[:step] or numbers != ["1", "2", "3"]:
            return f"wanted to continue from step {step}, found the log {rows}"
    if "signs" not in fault and "note: " not in said:
        return "it went on without a line that says from where"
    return ""
