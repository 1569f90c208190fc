"""The records of a study's rows: made, or known from jobs done elsewhere."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from common.errors import UserError
from studies.runner import study_report
from studies.runner.jobs import NOT_RUN, Job, Jobs, because
from studies.runner.study_commands import Command
from studies.runner.study_file import StudyOptions
from studies.runner.study_rows import RowOptions

EVALUATIONS = "evaluations.jsonl"
RATE = 0.005  # of the wanted rate, that a row's may miss
_TRIES = 6


class Records:
    """Folders `records-HASH`, one for rows of equal flags.

    Attributes:
      rates: key of a row -> targets per token; None = not known.
    """

    def __init__(self, runner: Jobs, say: Callable[[str], None]):
        self._runner, self._say = runner, say
        self.rates: dict[str, float | None] = {}
        self._flags: dict[str, dict[str, Any]] = {}
        self._known: set[str] = set()

    def are_here(self, row: RowOptions, error: str) -> bool:
        """Whether a command can read those of a row."""
        return not error and row.key not in self._known

    def about(self, row: RowOptions) -> dict[str, Any]:
        """What travels with a pretraining of the row; {} without records."""
        if row.key not in self._flags:
            return {}
        flags, rate = self._flags[row.key], self.rates[row.key]
        return {"records": flags, "rate": rate}

    def known(
        self,
        row: RowOptions,
        command: Command,
        about: Iterable[dict[str, Any]],
    ) -> tuple[str, str] | None:
        """(folder, "") by what came along with its pretrainings, or None."""
        found = next((a for a in about if "records" in a), None)
        if found is None:
            return None
        self._known.add(row.key)
        self._flags[row.key] = found["records"]
        self.rates[row.key] = found.get("rate")
        home = self._place(found["records"])[1]
        self._words(command, home, found["records"])
        return home, ""

    def made(self, row: RowOptions, command: Command) -> tuple[str, str]:
        """(folder, error), built with P that suffices."""
        self._known.discard(row.key)
        flags = dict(row.records)
        for _ in range(_TRIES):
            name, home = self._place(flags)
            words = self._words(command, home, flags)
            done = self._runner.results.get(name)
            result = done or self._runner.do(Job(name, (words,)))
            if "error" in result:
                return home, because("records", result["error"])
            wanted, reached, slots = study_report.target_rate(home)
            self.rates[row.key], self._flags[row.key] = reached, dict(flags)
            if reached is None or reached >= (1 - RATE) * wanted:
                break
            flags["num_predict"] = max(
                slots + max(1, slots // 8), math.ceil(slots * wanted / reached)
            )
        else:
            self._say(
                f"{row.name}: {reached:.2%} of the tokens are targets, "
                f"{wanted:.2%} were wanted"
            )
        return home, ""

    def _words(
        self, command: Command, home: str, flags: dict[str, Any]
    ) -> tuple[str, ...]:
        """The command of records, which jobs that read them know.

        Its flags are sorted, as JSON keeps those of records made elsewhere.
        """
        words = command.words(output_dir=home, **dict(sorted(flags.items())))
        if words not in self._runner.makers:
            self._runner.makers.append(words)
        return words

    def say_hidden(
        self, rows: Iterable[RowOptions], records: dict[str, tuple[str, str]]
    ) -> None:
        """Where nothing is run: a note on results that the table leaves out."""
        hidden = [
            row.key
            for row in rows
            if records[row.key][1] == NOT_RUN
            and self._runner.is_done(Job(f"{row.key}-0", ()))
        ]
        if hidden:
            self._say(
                f"note: rows {', '.join(hidden)} have results, but no records "
                "here, which say what may be compared: run it without --table"
            )

    def _place(self, flags: dict[str, Any]) -> tuple[str, str]:
        """(name of the job, folder) of records with these flags of a row."""
        text = json.dumps(flags, sort_keys=True)
        name = f"records-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        return name, self._runner.path(name, "data")


def check_held_out(
    options: StudyOptions, records: dict[str, tuple[str, str]]
) -> None:
    """Before the first pretraining: there is what a column is read from.

    Args:
      records: key of a row -> (folder, error).

    Raises:
      UserError: a row's records have an empty dev split, a column is of
        the evaluations, and nothing else is evaluated on.
    """
    names = [
        c.name for c in options.columns_of("pretrain") if c.file == EVALUATIONS
    ]
    for row in options.rows if names else ():
        home, failed = records[row.key]
        if failed or not home or options.flags_of(row).get("eval_data_dir"):
            continue
        if study_report.without_held_out(home):
            raise UserError(
                f"{home} has an empty dev split, and the column "
                f"{names[0]!r} is of evaluations on it: give [records] "
                "more text or a larger dev_fraction, or [pretrain] an "
                "eval_data_dir"
            )
