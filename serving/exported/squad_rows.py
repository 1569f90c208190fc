"""SQuAD's files to predict, as `run_squad.py` reads them: a row per question."""

import os
import re
from collections.abc import Iterator, Mapping

from data.finetuning.examples import BadRows
from data.finetuning.squad import examples
from data.finetuning.tables import table_files
from serving.exported.rows import InputRow

_SPAN = "span"
# What a file begins with; a row of JSON lines has the names of the texts.
_BEGIN = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"(data|version)"\s*:')
_LOOKED_AT = 1000  # bytes


class _Problems(BadRows):
    """Keeps all problems, for rows of their own."""

    def __init__(self):
        super().__init__(skip=True)
        self.found: list[str] = []

    def report(self, where: str, problem: str) -> None:
        self.found.append(f"{where}: {problem}")


def is_squad(path: str, description: Mapping) -> bool:
    """Whether the model of a `signature.json` reads SQuAD and a file holds it."""
    name, _ = table_files.unpacked_name(path)
    if description.get("head") != _SPAN or os.path.splitext(name)[1] != ".json":
        return False
    with table_files.opened(path) as f:
        return _BEGIN.match(f.read(_LOOKED_AT)) is not None


def read(path: str) -> Iterator[InputRow]:
    """The questions of a file; behind them what cannot be read of it.

    Raises UserError: see `data.finetuning.squad.examples.read_squad`.
    """
    bad = _Problems()
    found = examples.read_squad(path, False, bad)
    for question in found.questions:
        known: dict = {"key": question.question_id}
        if found.labelled:
            known["true_label"] = list(question.answers)
        inputs = {
            "question": question.text,
            "paragraph": found.paragraphs[question.paragraph],
        }
        yield InputRow(f"{path}: {question.question_id!r}", inputs, known)
    for problem in bad.found:
        yield InputRow(path, None, problem=problem)
