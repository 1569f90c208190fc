"""Relevance judgements: qrels of 4 and 5 columns, BEIR's, Cranfield's, CISI's.

| format | columns |
|---|---|
| `trec` | query, iteration (ignored), document, grade |
| `prels` | query, document, grade, algorithm, probability |
| `beir` | query, document, grade; the first line has the columns' names |
| `cranfield` | query, document, code |
| `cisi` | query, document, 0, 0.000000: what is listed is relevant |

Cranfield's codes run backwards: 1 is the best and 4 the worst, and -1, exactly
one per query, marks the best of all (BM25 finds documents of code -1 at median
rank 3, of code 4 at 67). Grades here are 5 - code, and 4 for -1: the file that
was "corrected for trec_eval" gives those 5, which gdeval refuses.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator

from common import checks
from common.errors import UserError
from data.finetuning.ranking import documents, lines, topics

FLAG = "--qrels_file"
Qrels = dict[str, dict[str, int]]
CRANFIELD_GRADES = {-1: 4, 1: 4, 2: 3, 3: 2, 4: 1}
_FIRST_LINES = 10_000  # that tell the order of columns
_NUM_COLUMNS = {"trec": 4, "prels": 5, "beir": 3, "cranfield": 3, "cisi": 4}
# Names that columns go by where a file has a header.
_NAMES = {
    "query": topics.HEADER_IDS,
    "iteration": ("iteration", "iter", "q0"),
    "document": documents.HEADER_IDS,
    "grade": ("score", "relevance", "rel", "grade", "label"),
}
# Columns of a header -> form; BEIR's is `query-id corpus-id score`.
_HEADERS = {
    ("query", "document", "grade"): "beir",
    ("query", "iteration", "document", "grade"): "trec",
}


def read(
    path: str, form: str = "auto", say: Callable[[str], None] = print
) -> Qrels:
    """Query -> document -> grade, in the file's order.

    The form is one of the table above, or "auto": the number of columns tells
    ("cisi" looks like "trec" with wrong columns and must be named). `say` takes
    a note where other sets have as many columns. Raises UserError: a bad line,
    a document judged twice, no judgement.
    """
    if form == "auto":
        form = detect(path)
        if form == "cranfield":  # BEIR's without their header look so, too
            say(
                f"note: {path} has 3 columns and is read as Cranfield's, where "
                "1 is the best grade: give --qrels_format=cranfield if it is, "
                "else --qrels_format=beir"
            )
        if form == "trec":
            _check_order(path)
    qrels = collect(path, _rows(path, form))
    if not qrels:
        raise UserError(f"{FLAG}={path} is empty")
    return qrels


def collect(path: str, rows: Iterable[tuple[int, str, str, int]]) -> Qrels:
    """Qrels of (line, query, document, grade); UserError: one judged twice."""
    qrels: Qrels = {}
    for number, query, document, grade in rows:
        of_query = qrels.setdefault(query, {})
        if document in of_query:
            raise UserError(
                f"{path}:{number}: document {document!r} of query {query!r} "
                "is judged a second time: keep one of the lines"
            )
        of_query[document] = grade
    return qrels


def detect(path: str) -> str:
    """The format by the first line's columns; UserError: another number."""
    number, line = lines.first_text(path, FLAG)
    columns = line.split()
    if _is_header(columns):
        return _header_form(path, number, line)
    if len(columns) == 4 and not _is_int(columns[3]):
        lines.refuse(
            path,
            number,
            "a whole grade in column 4 (--qrels_format=cisi reads CISI.REL)",
            line,
        )
    for form in ("trec", "prels", "cranfield"):
        if len(columns) == _NUM_COLUMNS[form]:
            return form
    lines.refuse(path, number, "4 columns (5 in prels, 3 in cranqrel)", line)


def _check_order(path: str) -> None:
    """UserError: documents stand where iterations do, as `ir_datasets` has them.

    A judgement's iteration is nearly always one and the same number.
    """
    rows = (line.split() for _, line in lines.read(path, FLAG))
    first = [r for r in itertools.islice(rows, _FIRST_LINES) if len(r) == 4]
    second, third = ({row[column] for row in first} for column in (1, 2))
    if len(second) > len(third):
        raise UserError(
            f"{FLAG}={path}: wanted query, iteration, document, grade, found "
            f"{len(second)} values in column 2 and {len(third)} in column 3, "
            "as in query, document, grade, iteration: awk '{print $1, $4, $2, "
            "$3}' IN > OUT, or give --qrels_format=trec if column 3 is the "
            "document"
        )


def _is_header(columns: list[str]) -> bool:
    return lines.column_name(columns[0]) in topics.HEADER_IDS


def _header_form(path: str, number: int, line: str) -> str:
    """The form that a header names; UserError: other columns."""
    names = [lines.column_name(name) for name in line.split()]
    for kinds, form in _HEADERS.items():
        if len(names) == len(kinds) and all(
            name in _NAMES[kind]
            for name, kind in zip(names, kinds, strict=True)
        ):
            return form
    lines.refuse(
        path,
        number,
        "a header of query-id, corpus-id, score or of query_id, iteration, "
        "doc_id, relevance",
        line,
    )


def _is_int(text: str) -> bool:
    try:
        checks.as_number(text, int)
    except ValueError:
        return False
    return True


def _rows(path: str, form: str) -> Iterator[tuple[int, str, str, int]]:
    count, first = _NUM_COLUMNS[form], True
    for number, line in lines.read(path, FLAG):
        columns = line.split()
        if not columns:
            continue
        header, first = first and _is_header(columns), False
        if header:
            named = _header_form(path, number, line)
            if named != form:
                wanted = f"{count} columns ({form}) without a header"
                lines.refuse(path, number, wanted, line)
            continue
        if len(columns) != count:
            lines.refuse(path, number, f"{count} columns ({form})", line)
        if form == "cisi":
            yield number, columns[0], columns[1], 1
            continue
        query, document, text = {
            "trec": (columns[0], columns[2], columns[-1]),
            "prels": columns[:3],
            "beir": columns,
            "cranfield": columns,
        }[form]
        if not _is_int(text):
            lines.refuse(path, number, "a whole number as grade", text)
        grade = checks.as_number(text, int)
        if form == "cranfield":
            if grade not in CRANFIELD_GRADES:
                lines.refuse(path, number, "a code of -1, 1, 2, 3, 4", text)
            grade = CRANFIELD_GRADES[grade]
        yield number, query, document, grade
