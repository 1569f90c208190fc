"""Results of jobs that were done elsewhere: on another machine, another day.

A runner of jobs writes `jobs.json`: the commands and numbers of what is done.
Given to a runner in a new folder (`--known=jobs.json`), they are taken as done
where the commands are the same, so that seeds may be shared among machines.
Weights do not travel. Where others begin with them, only the whole family (a
pretraining and all that is tuned from it) is written.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator

from common import files, locks
from common.errors import UserError
from studies.runner import jobs
from studies.runner.jobs import Job, Jobs

FILE = "jobs.json"
_HINT = "give a jobs.json that this command wrote"


def write(runner: Jobs, listed: Iterable[Job]) -> str:
    """Writes what is done of `listed` to the runner's folder; the path."""
    jobs_of = {job.name: job for job in listed}
    families: dict[str, list[Job]] = {}
    for name, job in jobs_of.items():
        above = jobs.parent(job)
        head = job.family or (above if above in jobs_of else name)
        families.setdefault(head, []).append(job)
    known = {}
    for family in families.values():
        if all(runner.is_done(job) for job in family):
            known |= {job.name: _row(runner.path(job.name)) for job in family}
    path = runner.path(FILE)
    files.write_json(path, known)
    return path


def _row(home: str) -> dict:
    attempt, result = (
        files.read_json_object(os.path.join(home, name), jobs.HINT)
        for name in (jobs.ATTEMPT, jobs.RESULT)
    )
    return {"commands": attempt["commands"], "result": result}


def adopt(folder: str, path: str) -> int:
    """Puts what is known into a folder of jobs; how many it did not have.

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
            or not isinstance(row.get("commands"), list)
            or not isinstance(row.get("result"), dict)
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
        os.makedirs(home, exist_ok=True)
        # Began and ended elsewhere: its time is in the result.
        attempt = {"before": 0.0, "began": 0.0, "commands": row["commands"]}
        files.write_json(os.path.join(home, jobs.ATTEMPT), attempt)
        files.write_json(os.path.join(home, jobs.RESULT), row["result"])
        new += 1
    return new


@contextlib.contextmanager
def opened(folder: str, path: str, only_read: bool) -> Iterator[bool]:
    """Holds a folder of jobs, with what is known; whether it may be written to.

    Args:
      path: see `adopt`.
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
        adopt(folder, path)
        yield True
