"""What a study writes: table, numbers, claims, the picture."""

import os
from collections.abc import Sequence
from typing import Any

from common import files
from data.pretraining.manifest import PretrainingManifest
from data.records.manifest import kind_of
from studies.runner import study_claims
from studies.runner.seed_table import Row, table
from studies.runner.study_file import StudyOptions
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
    rows_table = table(rows, options.columns, names[options.reference])
    parts = [rows_table, study_claims.text(options, rows)]
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
