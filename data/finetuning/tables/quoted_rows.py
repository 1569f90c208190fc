"""Rows with quotes: CSV, and TSV where its quotes are those of RFC 4180.

A quote that is never closed takes all that follows into its field. Such rows
are found and said with the lines that they take; a file that loses more than
`LOST_SHARE` of its lines in this way is refused.
"""

import csv
import re
from collections.abc import Iterator, Sequence

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.tables import table_files
from data.finetuning.tables.table_files import Row

# Lines of a row from which on it is asked whether they are rows themselves.
MANY_LINES = 10
# Lines of a row from which on it is said that it has so many.
LONG_ROW = 100
# Share of a file's lines that unclosed quotes may take with `--skip_bad_rows`.
LOST_SHARE = 0.01
# Share of a row's inner lines that are rows themselves where a quote is open.
_ROWS_INSIDE = 0.9

_FIELD = r'(?:"(?:[^"]++|"")*+"|[^"\t]*+)'
_RECORD = re.compile(rf"{_FIELD}(?:\t{_FIELD})*+", re.DOTALL)
_QUOTED = re.compile(r'(?:\A|\t)"((?:[^"]++|"")*+)"(?=\t|\Z)', re.DOTALL)
_INSIDE = re.compile('"[^"]*"')
_NUMBER = re.compile(r"[-+0-9.eE]*")


def read_table(path: str, bad: BadRows) -> Iterator[Row]:
    """Rows of a CSV or TSV of one's own, by its ending.

    A TSV's quotes are text, but where all say that they are RFC 4180's; a line
    of `bad` says how they are read. Rows whose number of columns is not the
    first one's are bad.
    """
    if table_files.unpacked_name(path)[0].endswith(".csv"):
        return read_csv(path, bad)
    if quotes_are_rfc4180(path, bad):
        return read_csv(path, bad, delimiter="\t")
    return table_files.read_tsv(path, bad)


def read_csv(
    path: str, bad: BadRows, columns: int | None = None, delimiter: str = ","
) -> Iterator[Row]:
    """Rows of RFC 4180: quotes double, fields may hold line ends.

    `bad` receives rows whose number of columns differs from `columns` (None:
    the first row's) or whose quotes do not end. Raises UserError: see
    `BadRows`; unclosed quotes take too many lines.
    """
    csv.field_size_limit(table_files.MAX_LINE_BYTES)
    lines, lost = _Lines(path), 0
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    while True:
        lines.taken.clear()
        lines.problem = ""
        problem, fields = "", []
        first = lines.number + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as e:
            problem = _explained(e)
        where, count = f"{path}:{first}", len(lines.taken)
        if not problem and count > MANY_LINES:
            wanted = len(fields) if columns is None else columns
            if _are_rows(lines.taken[1:-1], wanted, delimiter):
                problem = "a quoted field holds lines that are rows themselves"
        if problem:
            if count > 1:
                problem += (
                    f": a quote takes the lines {first} to {lines.number} into "
                    "one row; close it, or double it inside a field"
                )
            bad.report(where, problem)
            lost += count - 1
            _check_lost(path, where, lost)
        elif lines.problem:
            bad.report(where, lines.problem)
        else:
            columns = len(fields) if columns is None else columns
            if not table_files.wrong_columns(where, fields, columns, bad):
                if count > LONG_ROW:
                    bad.note(where, f"the row has {count} lines")
                yield Row(where, fields)


class _Lines:
    """Lines for the CSV reader, and those that the row at hand took."""

    def __init__(self, path: str):
        self.path = path
        self.number = 0
        self.taken: list[str] = []
        self.problem = ""

    def __iter__(self) -> Iterator[str]:
        for number, text, problem in table_files.numbered_lines(self.path):
            if problem and not self.problem:
                self.problem = problem
                if self.taken:
                    self.problem += f" (line {number})"
            self.number = number
            self.taken.append(text)
            yield text + "\n"


def _explained(error: csv.Error) -> str:
    """What the reader found, with a hint where it has none."""
    text = str(error)
    if "new-line character" in text:
        text = "a CR inside a field that has no quotes"
    return f"no valid CSV row ({text})"


def _are_rows(lines: Sequence[str], columns: int, delimiter: str) -> bool:
    """Whether nearly all lines are full rows of so many columns."""
    if columns < 2:
        return False
    rows = csv.reader([line + "\n" for line in lines], delimiter=delimiter)
    full = sum(
        len(fields) == columns and all(f.strip() for f in fields)
        for fields in rows
    )
    return full >= _ROWS_INSIDE * len(lines)


def _check_lost(path: str, where: str, lost: int) -> None:
    """Raises UserError where unclosed quotes take too much of a file."""
    if not lost:
        return
    total = sum(1 for _ in table_files.numbered_lines(path))
    if lost > LOST_SHARE * total:
        raise UserError(
            f"{where}: unclosed quotes take {lost} of {total} lines "
            f"({lost / total:.1%}, wanted at most {LOST_SHARE:.0%}): close the "
            "quote, or double it inside a field; --skip_bad_rows leaves out "
            "rows and no part of a file"
        )


def quotes_are_rfc4180(path: str, bad: BadRows) -> bool:
    """Whether a TSV's quotes are those of RFC 4180, as pandas writes them.

    They are where every field that begins with one is quoted from end to end,
    no other field has one, and they do something: they hold a tab, a line end
    or a doubled quote, or stand around every field. A quotation that spans rows
    looks so, too: where nothing else needs the quotes, they are text. A line of
    `bad` says so, or what speaks against it.
    """
    scan = _Scan()
    for number, text, problem in table_files.numbered_lines(path):
        scan.add(number, text, problem)
        if scan.broken and scan.first:
            break
    line = scan.first
    if not line:
        return False
    if scan.pending and not scan.broken:
        scan.broken = scan.begun
    if not scan.broken and (scan.needed or scan.everywhere):
        bad.say(f"{path}: quotes are those of RFC 4180 (first in line {line})")
        return True
    why = "they hold no tab, no line end and no doubled quote"
    if scan.broken:
        why = f"line {scan.broken} is not written so"
    elif scan.rows:
        why = f"from line {scan.rows} on they hold whole rows"
    bad.say(
        f"{path}: quotes are text (first in line {line}), not those of RFC "
        f"4180: {why}"
    )
    return False


class _Scan:
    """What the quotes of a TSV say, record by record."""

    def __init__(self):
        # lines of the first field that begins with a quote, of the first
        # record that is not RFC 4180 (0 = none) and of the pending one
        self.first = self.broken = self.begun = 0
        self.rows = 0  # of the first record whose lines are rows themselves
        self._size = self._quotes = 0
        self._columns = 0  # of the first record
        # quotes hold what must stand in them; all but numbers are quoted
        self.needed, self.everywhere = False, True
        self.pending: list[str] = []  # lines of a record not at its end

    def add(self, number: int, text: str, problem: str) -> None:
        """Takes the next line."""
        if not self.pending:
            self.begun, self._size, self._quotes = number, 0, 0
            if '"' not in text:
                self.everywhere = False
                self._columns = self._columns or text.count("\t") + 1
                return
            if text.startswith('"') or '\t"' in text:
                self.first = self.first or number
            else:
                self.broken = self.broken or number
                return
        self.pending.append(text)
        self._size += len(text)
        self._quotes += text.count('"')
        if problem or self._size > table_files.MAX_LINE_BYTES:
            self.broken = self.broken or self.begun
            self.pending.clear()
            return
        if self._quotes % 2:
            return  # one is open
        self._judge("\n".join(self.pending))
        self.pending.clear()

    def _judge(self, record: str) -> None:
        if not _RECORD.fullmatch(record):
            self.broken = self.broken or self.begun
            return
        fields = _QUOTED.findall(record)
        others = _QUOTED.sub("", record).split("\t")
        if not self._columns:
            self._columns = _INSIDE.sub("", record).count("\t") + 1
        needs = '[\t\n"]'
        if len(self.pending) > 1 and self._columns > 1:
            lines = (line.count("\t") + 1 for line in self.pending)
            if all(count == self._columns for count in lines):
                # a quotation over rows, or a text of just so many tabs
                self.rows = self.rows or self.begun
                needs = '"'
        self.needed |= any(re.search(needs, field) for field in fields)
        self.everywhere &= all(map(_NUMBER.fullmatch, others))
