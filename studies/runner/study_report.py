"""What a study writes: table, numbers, claims, the picture."""

import os
from collections.abc import Sequence
from typing import Any

from common import files
from data.pretraining.manifest import PretrainingManifest
from data.records.manifest import kind_of
from studies.runner.seed_table import Row, difference, same_rate, table
from studies.runner.study_file import Claim, ResultColumn, StudyOptions
from studies.runner.study_search import Searched


def target_rate(data_dir: str) -> tuple[float, float | None, int]:
    """(wanted targets per token, found ones, P); found None = not known.

    Records of another kind than pretraining's have no targets.
    """
    if kind_of(data_dir) != PretrainingManifest.KIND:
        return 0.0, None, 0
    manifest = PretrainingManifest.load(data_dir)
    return *manifest.target_rates("train"), manifest.num_predict


def without_held_out(data_dir: str) -> bool:
    """Whether these are records that a pretraining is not evaluated on."""
    if kind_of(data_dir) != PretrainingManifest.KIND:
        return False
    return not PretrainingManifest.load(data_dir).has_dev()


def text(
    options: StudyOptions,
    rows: Sequence[Row],
    searches: Sequence[Searched] = (),
) -> str:
    """Markdown: the table, then what became of claims and searches."""
    names = {row.key: row.name for row in options.rows}
    claims = [
        f"{line}\n"
        for claim in options.claims
        for line in claim_lines(claim, options, rows)
    ]
    rows_table = table(rows, options.columns, names[options.reference])
    parts = [rows_table, "".join(claims)]
    if searches:
        lines = "".join(f"- {s.line()}\n" for s in searches)
        parts.append(f"Searched, median (seeds), the best counts:\n\n{lines}")
    return "\n".join(filter(None, parts)).rstrip() + "\n"


def write(
    folder: str,
    text: str,
    rows: Sequence[Row],
    searches: Sequence[Searched] = (),
) -> list[str]:
    """A table and its numbers; the paths. Equal results give equal bytes."""
    values = {
        row.name: {"targets": row.rate, "errors": row.errors, "of": row.values}
        for row in rows
    }
    for s in searches:
        of = values[s.row].setdefault("searched", {})
        of[s.task] = {"by": s.column.name, "best": s.best, "found": s.found}
    lines = ["row\tcolumn\tseed\tvalue\n"] + [
        f"{row.name}\t{column}\t{seed}\t{value!r}\n"
        for row in rows
        for column, seeds in row.values.items()
        for seed, value in seeds.items()
    ]
    return save(folder, text, values, "".join(lines))


def save(folder: str, text: str, values: Any, lines: str) -> list[str]:
    """Writes `table.md`, `results.json` and `table.tsv`; their paths."""
    paths = [
        os.path.join(folder, name)
        for name in ("table.md", "results.json", "table.tsv")
    ]
    files.write_text(paths[0], text)
    files.write_json(paths[1], values)
    files.write_text(paths[2], lines)
    return paths


def claim_lines(
    claim: Claim, options: StudyOptions, rows: Sequence[Row]
) -> list[str]:
    """Markdown: the claim, and what each pair of rows says, with interval.

    It holds where the whole interval is on its side of 0, it is contradicted
    where all of it is on the other, else the seeds do not decide.
    """
    by_key = dict(zip([r.key for r in options.rows], rows, strict=True))
    columns = {c.name: c for c in options.columns}
    lines = [f"- {claim.text}"]
    for name in claim.columns:
        column = columns[name]
        for more in claim.more:
            for less in claim.less:
                a, b = by_key[more], by_key[less]
                said = _verdict(a, b, column)
                lines.append(f"  - {column.name}, {more} less {less}: {said}")
    return lines


def _verdict(a: Row, b: Row, column: ResultColumn) -> str:
    interval = difference(a, b, column.name)
    if interval is None:
        return "not run"
    if not same_rate(a, b):
        return "not compared, the rates of targets differ"
    sign = 1 if column.higher else -1
    low, high = sorted((sign * interval.low, sign * interval.high))
    text = f"{interval.mean:+.{column.digits}f}"
    if interval.queries < 2:
        return f"{text}, one pair of seeds"
    ends = f"[{interval.low:+.{column.digits}f}, {interval.high:+.{column.digits}f}]"
    verdict = "not decided"
    if low > 0:
        verdict = "holds"
    elif high < 0:
        verdict = "contradicted"
    return f"{text} {ends}, {interval.queries} pairs: {verdict}"
