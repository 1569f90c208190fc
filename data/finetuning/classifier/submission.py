"""GLUE's submission: eleven files in one zip, and what the server wants of it.

The layout is that of the benchmark's sample submission: one file per test set
at the top of the zip, a header, a line per test row in the order of the file.
"""

import io
import os
import zipfile
from collections.abc import Mapping

from common import checks, files
from data.finetuning.classifier.glue import GLUE, submission_name

# File -> rows of the official test set.
ROWS = {
    "AX.tsv": 1104,
    "CoLA.tsv": 1063,
    "MNLI-m.tsv": 9796,
    "MNLI-mm.tsv": 9847,
    "MRPC.tsv": 1725,
    "QNLI.tsv": 5463,
    "QQP.tsv": 390965,
    "RTE.tsv": 3000,
    "SST-2.tsv": 1821,
    "STS-B.tsv": 1379,
    "WNLI.tsv": 146,
}
HEADER = ["index", "prediction"]


def labels_of() -> dict[str, tuple[str, ...]]:
    """File -> the labels that it may have; () for a value from 0 to 5."""
    return {
        submission_name(task, split): task.labels
        for task in GLUE.values()
        for split in task.test
    }


def write(paths: Mapping[str, str], output: str) -> None:
    """One zip of files by their name in it, the same bytes for the same files."""
    content = io.BytesIO()  # a remote file cannot be gone back in
    with zipfile.ZipFile(content, "w") as zipped:
        for name in sorted(paths):
            entry = zipfile.ZipInfo(name)  # of 1980: no clock enters
            entry.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(entry, files.read_bytes(paths[name]))
    with files.atomic_open(output, "wb") as f:
        f.write(content.getvalue())


def validate(path: str, rows: Mapping[str, int] = ROWS) -> list[str]:
    """What the server would refuse of a zip; [] where it is well."""
    try:
        content = io.BytesIO(files.read_bytes(path))
        with zipfile.ZipFile(content) as zipped:
            packed = {name: zipped.read(name) for name in zipped.namelist()}
    except (OSError, zipfile.BadZipFile) as e:
        return [f"{os.path.basename(path)} is not a zip file: {e}"]
    problems = [
        f"{name} is missing" for name in sorted(set(rows) - set(packed))
    ]
    problems += [
        f"{name} is none of GLUE's" for name in sorted(set(packed) - set(rows))
    ]
    for name in sorted(set(packed) & set(rows)):
        problem = _file_problem(packed[name], labels_of()[name], rows[name])
        if problem:
            problems.append(f"{name}{problem}")
    return problems


def _file_problem(
    content: bytes, labels: tuple[str, ...], rows: int
) -> str | None:
    """What is wrong with a file first."""
    try:
        lines = content.decode("ascii").split("\n")
    except UnicodeDecodeError:
        return ": not ASCII"
    if lines.pop() != "":
        return ": the last line has no end"
    table = [line.split("\t") for line in lines]
    if table[:1] != [HEADER]:
        return f":1: wanted the header {HEADER}"
    if len(table) - 1 != rows:
        return f": wanted {rows} rows, found {len(table) - 1}"
    for number, row in enumerate(table[1:]):
        if len(row) != 2 or row[0] != str(number):
            return f":{number + 2}: wanted the index {number} and a prediction"
        if labels and row[1] not in labels:
            return f":{number + 2}: wanted one of {', '.join(labels)}"
        if not labels and not _is_score(row[1]):
            return f":{number + 2}: wanted a number from 0 to 5"
    return None


def _is_score(text: str) -> bool:
    try:
        return 0.0 <= checks.as_number(text) <= 5.0
    except ValueError:
        return False
