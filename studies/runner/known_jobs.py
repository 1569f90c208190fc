"""Results of jobs that were done elsewhere: on another machine, another day.

A runner of jobs writes `jobs.json`: the commands and numbers of what is done.
Given to a runner in a new folder (`--known=jobs.json`), they are taken as done
where the commands are the same, so that seeds may be shared among machines. Folders
that a flag of the runner names ("places", such as the sets of the tasks) stand there
as `{name}`: they lie elsewhere on another machine.
Weights do not travel. Where others begin with them, only the whole family (a
pretraining and all that is tuned from it) is written.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator

from common import files, locks
from common.errors import UserError
from studies.runner import jobs
from studies.runner.jobs import Job, Jobs

FILE = "jobs.json"
_PARTS = ("commands", "inputs")  # of an attempt, that are compared
_HINT = "give a jobs.json that this command wrote"


def write(
    runner: Jobs, listed: Iterable[Job], places: dict[str, str] | None = None
) -> str:
    """Writes what is done of `listed` to the runner's folder; the path.

    Args:
      places: name -> folder of this machine that values of flags begin with.
    """
    jobs_of = {job.name: job for job in listed}
    families: dict[str, list[Job]] = {}
    for name, job in jobs_of.items():
        above = jobs.parent(job)
        head = job.family or (above if above in jobs_of else name)
        families.setdefault(head, []).append(job)
    known = {}
    for family in families.values():
        if all(runner.is_done(job) for job in family):
            known |= {
                job.name: _row(runner.path(job.name), job.about, places or {})
                for job in family
            }
    path = runner.path(FILE)
    files.write_json(path, known)
    return path


def _row(home: str, about: dict, places: dict[str, str]) -> dict:
    attempt, result = (
        files.read_json_object(os.path.join(home, name), jobs.HINT)
        for name in (jobs.ATTEMPT, jobs.RESULT)
    )
    row = {
        part: _anywhere(attempt[part], places)
        for part in _PARTS
        if part in attempt
    }
    row |= {"result": result}
    return row | ({"about": about} if about else {})


def _anywhere(commands: list, places: dict[str, str]) -> list:
    """Commands with the names of this machine's folders."""
    for name, place in places.items():
        begins = re.compile(rf"(?<==){re.escape(place)}(?=/|$)")
        mark = f"{{{name}}}"
        commands = [[begins.sub(mark, w) for w in c] for c in commands]
    return commands


def _are_commands(value) -> bool:
    """Whether a JSON value is a list of lists of strings."""
    return isinstance(value, list) and all(
        isinstance(c, list) and all(isinstance(w, str) for w in c)
        for c in value
    )


def _here(commands: list, places: dict[str, str]) -> list:
    """Commands of another machine with this one's folders."""
    for name, place in places.items():
        mark = f"={{{name}}}"
        commands = [
            [w.replace(mark, f"={place}", 1) for w in c] for c in commands
        ]
    return commands


def adopt(folder: str, path: str, places: dict[str, str] | None = None) -> int:
    """Puts what is known into a folder of jobs; how many it did not have.

    Args:
      places: as in `write`, of this machine.

    Raises:
      UserError: it is no such file.
    """
    known = files.read_json_object(path, _HINT) if path else {}
    for name, row in known.items():
        if (
            name in ("", ".")
            or os.path.isabs(name)
            or ".." in name.split("/")
            or not isinstance(row, dict)
            or not _are_commands(row.get("commands"))
            or not _are_commands(row.get("inputs", []))
            or not isinstance(row.get("result"), dict)
            or not isinstance(row.get("about", {}), dict)
        ):
            raise UserError(
                f"{path}: {name!r}: wanted the commands and the result of a "
                f"job; {_HINT}"
            )
    new = 0
    for name, row in known.items():
        home = os.path.join(folder, name)
        if files.exists(os.path.join(home, jobs.RESULT)):
            continue
        # Its time is in the result.
        attempt = {"before": 0.0, "began": jobs.ELSEWHERE}
        attempt |= {
            part: _here(row[part], places or {})
            for part in _PARTS
            if part in row
        }
        attempt |= {"about": row["about"]} if "about" in row else {}
        files.write_json(os.path.join(home, jobs.ATTEMPT), attempt)
        files.write_json(os.path.join(home, jobs.RESULT), row["result"])
        new += 1
    return new


@contextlib.contextmanager
def opened(
    folder: str, path: str, only_read: bool, places: dict[str, str]
) -> Iterator[bool]:
    """Holds a folder of jobs, with what is known; whether it may be written to.

    Args:
      path, places: see `adopt`.
      only_read: where another process has the folder, or nothing can be
        written, look at it all the same: files are whole at any moment.

    Raises:
      UserError: another process has it.
      OSError: nothing can be written there.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locks.held(folder))
        except (UserError, OSError):
            if not only_read or path:
                raise
            yield False
            return
        adopt(folder, path, places)
        yield True
