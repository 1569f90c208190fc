"""Command: plants the mistakes of `mutants.toml` and runs the tests.

    python -m tools.mutants --output=build/mutants
    python -m tools.mutants --list
    python -m tools.mutants --only=mask-polarity,fold-part-one-seed

One mistake at a time is planted in a copy of the working tree; the tests that
should find it run first (all but slow ones, up to the first failure), then,
unless `--nowide`, the others of its area. What found a mistake must pass without
it.
Results are kept in `results.json`: an entry is run again when the mistake, its
source file or the test that found it changed, one that survived when any test
file changed. `results.md` is the table. Status 1 when a mistake survived that
is not marked as equivalent.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from absl import flags

from common import files
from common.errors import UserError
from flags import app
from tools import mutant_server, mutant_table
from tools.mutant_table import ROOT, Mutant

FLAGS = flags.FLAGS
# Of pytest; the tests of the table itself would find everything.
_ARGUMENTS = (
    *("-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"),
    *("-p", "no:xdist", "-p", "no:rerunfailures", "--assert=plain"),
    *("-m", "not slow and not bench"),
    "--ignore=tests/tools/test_mutants.py",
)
_SERVE = "from tools import mutant_server; mutant_server.main()"
_FAILED = (1, 2)  # of pytest: tests failed, or a file could not be imported
FOUND, SURVIVED, BROKEN = "found", "survived", "broken"


def define() -> None:
    """Registers the command's flags."""
    flags.DEFINE_string(
        "output", "build/mutants", "Folder of the results, kept between runs."
    )
    flags.DEFINE_list("only", [], "Ids, or beginnings of ids; empty = all.")
    flags.DEFINE_bool("list", False, "Print the table, run nothing.")
    flags.DEFINE_bool("wide", True, "Run more tests where the first pass.")
    flags.DEFINE_bool("again", False, "Run what has a result, too.")
    flags.DEFINE_float("timeout", 300.0, "Seconds for the tests of a mistake.")


@dataclasses.dataclass(frozen=True)
class Result:
    """What happened to one mistake.

    Attributes:
      status: `FOUND`, `SURVIVED`, or `BROKEN`: what found it fails without
        it, too.
      by: the first test that failed, or how the process ended.
      key: see `fingerprint`; the result holds as long as it is the same.
    """

    id: str
    status: str
    by: str
    seconds: float
    key: str


class Server:
    """`tools.mutant_server` in a copy of the repository."""

    def __init__(self, tree: pathlib.Path):
        environment = os.environ | {
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._log = str(tree.parent / "pytest.log")
        self._errors = tree.parent / "server.log"
        with open(self._errors, "w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE],
                cwd=tree,
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def run(self, tests: list[str], timeout: float, more=()) -> dict:
        """The server's answer.

        Raises:
          UserError: pytest could not run the tests, or the server ended.
        """
        request = {
            "args": [*_ARGUMENTS, *more, *tests],
            "timeout": timeout,
            "log": self._log,
        }
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            said = self._errors.read_text(errors="replace").strip()
            raise UserError(
                f"the process that runs the tests ended: {said[-400:]}"
            )
        answer = json.loads(line)
        if answer["status"] > max(_FAILED) and not answer["failed"]:
            log = pathlib.Path(self._log).read_text(errors="replace")
            raise UserError(
                f"pytest ended with {answer['status']} for {tests}: {log[-800:]}"
            )
        return answer

    def close(self) -> None:
        """Ends it."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def reference_folder() -> pathlib.Path:
    """Where golden numbers lie, if they are there."""
    return ROOT.parent / "shared"


@contextlib.contextmanager
def copied_tree():
    """A copy of what git knows or would add, beside the reference folder."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = pathlib.Path(folder, "tree")
        for name in filter(None, names):
            source, target = ROOT / name, tree / name
            if source.is_symlink() or not source.is_file():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        if (beside := reference_folder()).is_dir():
            os.symlink(beside.resolve(), pathlib.Path(folder, beside.name))
        # Compiled files are checked by content: the time of a planted file
        # may be that of the one before.
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q"]
            + ["--invalidation-mode=checked-hash", "."],
            cwd=tree,
            check=True,
        )
        yield tree


@contextlib.contextmanager
def planted(mutant: Mutant, tree: pathlib.Path):
    """The mistake in the copy, and the right text again."""
    path = tree / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.planted(text), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def fingerprint(mutant: Mutant, status: str, by: str) -> str:
    """What a result depends on: the test that found it, or all tests."""
    name = by.partition("::")[0]
    if status != SURVIVED and (ROOT / name).is_file():
        return mutant_table.fingerprint(mutant, ROOT, [name])
    tests = sorted(
        str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/*.py")
    )
    ran = [*mutant.tests, *(mutant.wide if FLAGS.wide else ())]
    return mutant_table.fingerprint(mutant, ROOT, tests, ran)


def examine(
    mutant: Mutant, server: Server, tree: pathlib.Path, last: Result | None
) -> Result:
    """Runs the tests of one mistake, those that found it last time first."""
    first = list(mutant.tests)
    if (
        last
        and last.status == FOUND
        and (tree / last.by.split("::")[0]).exists()
    ):
        first.insert(0, last.by.partition("[")[0])
    stages = [first]
    if FLAGS.wide and mutant.wide and not mutant.equivalent:
        stages.append(list(mutant.wide))
    seconds = 0.0
    status, by = SURVIVED, ""
    with planted(mutant, tree):
        for tests in stages:
            answer = server.run(tests, FLAGS.timeout)
            seconds += answer["seconds"]
            by = verdict(answer)
            if by:
                status = FOUND
                break
    return Result(
        mutant.id,
        status,
        by,
        round(seconds, 1),
        fingerprint(mutant, status, by),
    )


def verdict(answer: dict) -> str:
    """What failed; "" when all passed."""
    if answer["failed"]:
        return answer["failed"][0]
    if answer["status"] == mutant_server.TIMED_OUT:
        return "timeout"
    if answer["status"] < 0:
        return f"signal {-answer['status']}"
    return "" if answer["status"] == 0 else f"status {answer['status']}"


def check_finders(
    results: dict[str, Result], fresh: list[str], server: Server
) -> None:
    """What found a mistake must pass without it; else the result is BROKEN."""
    finders = sorted({results[i].by for i in fresh if "::" in results[i].by})
    if not finders:
        return
    answer = server.run(finders, 60.0 * len(finders), ["--maxfail=1000"])
    for i in fresh:
        if results[i].by in answer["failed"]:
            results[i] = dataclasses.replace(results[i], status=BROKEN)


def markdown(mutants: list[Mutant], results: dict[str, Result]) -> str:
    """The results as a table."""
    done = [(m, results[m.id]) for m in mutants if m.id in results]
    counted = [(m, r) for m, r in done if not m.equivalent]
    found = sum(r.status == FOUND for _, r in counted)
    seconds = sum(r.seconds for _, r in done)
    lines = [
        f"{found} of {len(counted)} found, {len(done) - len(counted)} more are "
        f"equivalent; {seconds / max(len(done), 1):.1f} s each.",
        "",
        "| mistake | file | what is wrong | result | s |",
        "|---|---|---|---|---|",
    ]
    for m, r in done:
        shown = f"`{r.by}`" if r.status == FOUND else f"**{r.status}** {r.by}"
        if m.equivalent:
            shown = f"equivalent: {m.equivalent}"
        shown = shown.replace("|", "\\|")
        lines.append(
            f"| {m.id} | `{m.file}` | {m.why} | {shown} | {r.seconds} |"
        )
    return "\n".join(lines) + "\n"


def read_results(folder: pathlib.Path) -> dict[str, Result]:
    """Results of earlier runs by id."""
    path = folder / "results.json"
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {row["id"]: Result(**row) for row in rows}


def write_results(folder: pathlib.Path, mutants, results) -> None:
    """Both files; entries that the table lost are left out."""
    rows = [
        dataclasses.asdict(results[m.id]) for m in mutants if m.id in results
    ]
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(str(folder / "results.json"), rows)
    files.write_text(str(folder / "results.md"), markdown(mutants, results))


def run(mutants: list[Mutant], folder: pathlib.Path) -> dict[str, Result]:
    """Examines what has no valid result; results by id."""
    every = mutant_table.load()
    results = read_results(folder)
    todo = [
        m
        for m in mutants
        if FLAGS.again
        or m.id not in results
        or results[m.id].status == BROKEN
        or results[m.id].key
        != fingerprint(m, results[m.id].status, results[m.id].by)
    ]
    print(f"{len(mutants)} mistakes, {len(mutants) - len(todo)} with a result")
    if not (beside := reference_folder()).is_dir():
        print(f"no {beside}: what only its numbers find will survive")
    if not todo:
        return results
    begin = time.monotonic()
    with copied_tree() as tree, contextlib.closing(Server(tree)) as server:
        for number, mutant in enumerate(todo, 1):
            result = examine(mutant, server, tree, results.get(mutant.id))
            results[mutant.id] = result
            write_results(folder, every, results)
            left = (time.monotonic() - begin) / number * (len(todo) - number)
            print(
                f"[{number:3d}/{len(todo)}] {mutant.id}: {result.status} "
                f"{result.by} {result.seconds} s, {left / 60:.1f} min left",
                flush=True,
            )
        check_finders(results, [m.id for m in todo], server)
    write_results(folder, every, results)
    return results


def main() -> None:
    """Plants, tests, reports."""
    mutants = [
        m
        for m in mutant_table.load()
        if not FLAGS.only or m.id.startswith(tuple(FLAGS.only))
    ]
    if not mutants:
        raise UserError(
            f"--only={','.join(FLAGS.only)} fits no id of the table"
        )
    wrong = [f"{m.id}: {m.problem(ROOT)}" for m in mutants if m.problem(ROOT)]
    if wrong:
        raise UserError("; ".join(wrong))
    if FLAGS.list:
        for m in mutants:
            print(f"{m.id:<36} {m.file:<34} {m.why}")
        print(f"{len(mutants)} mistakes")
        return
    results = run(mutants, pathlib.Path(FLAGS.output))
    print(markdown(mutants, results), end="")
    bad = [
        m.id
        for m in mutants
        if results[m.id].status != FOUND and not m.equivalent
    ]
    if bad:
        raise UserError(
            f"{len(bad)} mistakes were not found: {', '.join(bad)}; write the "
            "test, or mark the entry as equivalent and say why"
        )


if __name__ == "__main__":
    define()
    app.run(main)
