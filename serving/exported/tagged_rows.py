"""Files of tagged tokens to predict, as `run_tagger.py` reads them.

A sentence is a row: its tokens are joined to a text, and the answer has a tag
for each token beside the labels of the pieces. Answers of other texts have the
spans that their pieces tell.
"""

import itertools
import os
from collections.abc import Iterator, Mapping

import numpy as np

from common.errors import UserError
from data.finetuning.options import TaggingDataOptions
from data.finetuning.squad.features import TokenizedParagraph
from data.finetuning.tables import table_columns, table_files
from data.finetuning.tagging import conll_lines, examples, features, metrics
from serving.exported.rows import InputRow, Problems

TAGGER = "token_classification"
# Files that are called so by others, too: of texts, of tables.
_OTHERS = ("txt", "tsv")
_ENDINGS = [f".{x}" for x in examples.COLUMN_SUFFIXES if x not in _OTHERS]
_KEPT = ("text_column", "tag_column", "token_separator")  # of training
_LOOKED_AT = 8  # rows of a file of another name


def is_tagged(path: str, description: Mapping) -> bool:
    """Whether a file holds tagged tokens, by its ending.

    Raises UserError: the model of that `signature.json` is no tagger; or it is,
    and the file holds them under another name.
    """
    ending = os.path.splitext(table_files.unpacked_name(path)[0])[1]
    tagger = description.get("head") == TAGGER
    if ending in _ENDINGS and not tagger:
        raise UserError(
            f"{path}: wanted a table or a text per line, found tagged tokens "
            "by its ending, which a tagger reads"
        )
    if tagger and ending not in _ENDINGS and _looks_tagged(path, description):
        raise UserError(
            f"{path}: wanted a text per line or a table, found a token and its "
            "tag per line: give the file a name that ends in .conll"
        )
    return ending in _ENDINGS


def _looks_tagged(path: str, description: Mapping) -> bool:
    """Whether the first rows, two or more, end with tags of the model."""
    if table_columns.is_json_lines(path):
        return False
    tag = _columns(description).tag_column
    labels, found = description["labels"], 0
    lines = (line for _, line in table_files.read_lines(path, Problems()))
    rows = (x for x in lines if x.strip() and not conll_lines.is_beside(x))
    for line in itertools.islice(rows, _LOOKED_AT):
        fields = conll_lines.fields(line)
        if not 1 < len(fields) > tag >= -len(fields) or (
            fields[tag] not in labels
        ):
            return False
        found += 1
    return found > 1


def _columns(description: Mapping) -> TaggingDataOptions:
    data = description.get("data_options", {})
    return TaggingDataOptions(**{n: data[n] for n in _KEPT if n in data})


def read(path: str, description: Mapping) -> Iterator[InputRow]:
    """The sentences of a file, bad ones in their places.

    Raises UserError: it holds none, or see `data.finetuning.tagging.examples`.
    """
    bad = Problems()
    columns = _columns(description)
    found = examples.read(path, bad, columns, labelled=False)
    left_out = iter(bad.taken())  # one problem of each bad sentence
    number = 0
    for example in found:
        yield from itertools.islice(left_out, example.guid - number)
        number = example.guid + 1
        text = example.text
        known: dict = {"tokens": [text[a:b] for a, b in example.units]}
        if example.tags is not None:
            known["true_label"] = list(example.tags)
        inputs = {"text": text}
        yield InputRow(example.where, inputs, known, units=example.units)
    yield from left_out


def told(row: InputRow, answer: Mapping, description: Mapping) -> dict:
    """What a tagger's answer for pieces says of tokens or of the text.

    {"tags": one per token} of a file of tokens; else, of a model whose labels
    name chunks, {"spans": [{"start", "end", "label"}]}. As in `run_tagger.py`,
    but that the text may have been cut (`truncated`). Empty for other models.
    """
    if description.get("head") != TAGGER:
        return {}
    starts, ends = (
        np.asarray(answer[f"piece_{name}"], np.int64)
        for name in ("starts", "ends")
    )
    pieces = TokenizedParagraph(np.zeros_like(ends), starts, ends)
    labels = description["labels"]
    if row.units:
        # Without a piece every token has the first label.
        of_pieces = answer["labels"] or labels
        return {
            "tags": _tags(row.units, pieces, of_pieces, answer["truncated"])
        }
    if not metrics.names_chunks(labels):
        return {}
    scores = np.eye(len(labels))[np.asarray(answer["label_ids"], np.int64)]
    text = examples.TaggedText(0, row.inputs["text"], (), None, False, "")
    found = features.span_answers(text, pieces, scores, labels)
    names = ("start", "end", "label")
    return {"spans": [dict(zip(names, span, strict=True)) for span in found]}


def _tags(units, pieces, of_pieces, truncated: bool) -> list[str | None]:
    """A token without a piece has the answer of the one before it.

    One behind the end of a text that was cut has None.
    """
    end = pieces.end.max(initial=0) if truncated else None
    places = [0] * len(units)
    if len(pieces.end):
        places = features.told_by(units, pieces)
    return [
        None if end is not None and start >= end else of_pieces[place]
        for (start, _), place in zip(units, places, strict=True)
    ]
