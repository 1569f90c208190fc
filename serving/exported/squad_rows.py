"""SQuAD's files to predict, as `run_squad.py` reads them: a row per question."""

import os
import re
from collections.abc import Iterator, Mapping

from data.finetuning.squad import examples
from data.finetuning.tables import table_files
from serving.exported.rows import InputRow, Problems

_SPAN = "span"
# What a file begins with; a row of JSON lines has the names of the texts.
_BEGIN = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"(data|version)"\s*:')
_LOOKED_AT = 1000  # bytes


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
    bad = Problems()
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
    yield from bad.taken()
