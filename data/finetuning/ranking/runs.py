"""TREC runs: a score for every candidate of every query.

A line is `query Q0 document rank score tag`. As in trec_eval and gdeval the
score orders, not the rank, and equal scores are ordered by document id,
descending.
"""

import math

from common import checks, files
from common.errors import UserError
from data.finetuning.ranking import lines

FLAG = "--run_file"
Run = dict[str, dict[str, float]]


def ordered(scores: dict[str, float]) -> list[str]:
    """Document ids, best first."""
    return sorted(scores, key=lambda d: (scores[d], d), reverse=True)


def read(path: str) -> Run:
    """Query -> document -> score.

    Raises UserError: a bad line, a document twice for a query, no line.
    """
    run: Run = {}
    for number, line in lines.read(path, FLAG):
        columns = line.split()
        if not columns:
            continue
        if len(columns) != 6:
            wanted = "6 columns (query Q0 document rank score tag)"
            lines.refuse(path, number, wanted, line)
        query, _, document, _, text, _ = columns
        try:
            score = checks.as_number(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            lines.refuse(path, number, "a finite score in column 5", text)
        of_query = run.setdefault(query, {})
        if document in of_query:
            raise UserError(
                f"{path}:{number}: document {document!r} comes a second time "
                f"for query {query!r}: keep one of the lines"
            )
        of_query[document] = score
    if not run:
        raise UserError(f"{FLAG}={path} is empty")
    return run


def top(run: Run, depth: int) -> Run:
    """The first `depth` documents of every query, in order."""
    return {
        query: {d: scores[d] for d in ordered(scores)[:depth]}
        for query, scores in run.items()
    }


def write(path: str, run: Run, tag: str) -> None:
    """Writes a run, best first, atomically; scores round-trip exactly."""
    with files.atomic_open(path, "w") as f:
        for query, scores in run.items():
            for rank, document in enumerate(ordered(scores), start=1):
                score = float(scores[document])
                f.write(f"{query} Q0 {document} {rank} {score!r} {tag}\n")
