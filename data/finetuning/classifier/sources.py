"""Classification data that is not GLUE: IMDB folders, CSVs, TREC, tables.

Each reader returns every row as a `TextExample` and reports bad ones to a
`BadRows`. Labels that the caller does not know are taken as they come.
"""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

from common.errors import UserError
from data.finetuning import table_files as task_readers
from data.finetuning.examples import BadRows, TextExample, parse_label
from data.finetuning.pair_features import MAX_SEGMENTS

# Columns of a generic table that hold text when --text_columns is not given.
TEXT_NAME = re.compile(
    r"(text|sentence|question|premise|hypothesis|passage|title|body)"
    r"[_ ]?([a-z]|\d+)?"
)
LABEL_NAMES = ("label", "labels", "score", "gold_label", "class")


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """How a generic TSV, CSV or JSONL file is read.

    Attributes:
      head: "classification", "regression" or "multi_label".
      text_columns: names (or numbers from 0 without a header); empty = all
        columns whose names say text.
      label_column: name or number; empty = the one that says label.
      has_header: the first row holds names.
      label_separator: between the names of a multi-label field.
      allow_empty_text: an empty segment is data and not a bad row.
    """

    head: str = "classification"
    text_columns: tuple[str, ...] = ()
    label_column: str = ""
    has_header: bool = True
    label_separator: str = "|"
    allow_empty_text: bool = False


def read_table(
    path: str,
    options: TableOptions,
    bad: BadRows,
    known: Mapping[str, int] | None,
    need_label: bool,
) -> list[TextExample]:
    """Rows of a TSV, CSV or JSONL file (by its extension).

    Args:
      path: the file.
      options: see `TableOptions`.
      bad: receives bad rows.
      known: allowed class names or None.
      need_label: False reads a file without labels (prediction).

    Raises:
      UserError: see `BadRows`, or the header lacks a wanted column.
    """
    stem = re.sub(r"\.(gz|xz)$", "", path)
    if stem.endswith((".jsonl", ".json")):
        rows = _jsonl_rows(path, options, bad, need_label)
    else:
        rows = _table_rows(path, stem, options, bad, need_label)
    examples = []
    for where, texts, label_text in rows:
        if not options.allow_empty_text and not all(t.strip() for t in texts):
            bad.report(where, "a text field is empty")
            continue
        label = None
        if need_label:
            label, problem = parse_label(
                label_text or "", options.head, known, options.label_separator
            )
            if problem:
                bad.report(where, problem)
                continue
        examples.append(
            TextExample(str(len(examples)), tuple(texts), label, where)
        )
    return examples


def _table_rows(path, stem, options, bad, need_label):
    """(where, texts, label text) of a TSV or CSV file."""
    read = (
        task_readers.read_csv
        if stem.endswith(".csv")
        else task_readers.read_tsv
    )
    rows = read(path, bad)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path}:1: the file is empty")
    if options.has_header:
        names = [f.strip() for f in first.fields]
        pending = []
    else:
        names = [str(i) for i in range(len(first.fields))]
        pending = [first]
    text_at, label_at = _columns(first.where, names, options, need_label)
    for row in _chain(pending, rows):
        label = row.fields[label_at] if label_at is not None else None
        yield row.where, [row.fields[i] for i in text_at], label


def _chain(first: Sequence, rest):
    yield from first
    yield from rest


def choose_columns(
    where: str, names: list[str], options: TableOptions, need_label: bool
) -> tuple[list[str], str | None]:
    """Names of the text columns and of the label column.

    Args:
      where: "file:line" of the header, for messages.
      names: all columns.
      options: what was asked for.
      need_label: a missing label column is an error.

    Raises:
      UserError: a column is missing or named twice.
    """
    duplicates = {n for n in names if names.count(n) > 1}
    label = options.label_column
    if not label:
        label = next((n for n in LABEL_NAMES if n in names), "")
    texts = list(options.text_columns)
    if not texts:
        texts = [n for n in names if TEXT_NAME.fullmatch(n.lower())]
        if not texts and len(names) == 2 and label:
            texts = [n for n in names if n != label]
        texts = [n for n in texts if n != label]
    missing = [n for n in texts if n not in names]
    if need_label and (not label or label not in names):
        missing.append(label or "label")
    if missing or not texts or duplicates & {*texts, label}:
        raise UserError(
            f"{where}: wanted {'one column each' if not missing else missing}"
            f" for text ({', '.join(texts) or 'e.g. text'}) and label, found "
            f"the columns {names[:20]}; name them with --text_columns and "
            "--label_column"
        )
    if len(texts) > MAX_SEGMENTS:
        raise UserError(
            f"{where}: at most {MAX_SEGMENTS} text columns, found {len(texts)}"
        )
    return texts, label if label in names else None


def _columns(
    where: str, names: list[str], options: TableOptions, need_label: bool
) -> tuple[list[int], int | None]:
    """Numbers of the text columns and of the label column."""
    texts, label = choose_columns(where, names, options, need_label)
    label_at = names.index(label) if label is not None else None
    return [names.index(n) for n in texts], label_at


def _jsonl_rows(path, options, bad, need_label):
    """(where, texts, label text) of a JSONL file."""
    columns = None
    for where, value in task_readers.read_jsonl(path, bad):
        if columns is None:
            columns = choose_columns(where, list(value), options, need_label)
            text_names, label_name = columns
        texts = [value.get(n) for n in text_names]
        if not all(isinstance(t, str) for t in texts):
            bad.report(where, f"wanted strings under {text_names}")
            continue
        label = value.get(label_name) if label_name else None
        if isinstance(label, bool) or label is None:
            label = "" if label is None else str(label).lower()
        if isinstance(label, list):
            if options.head != "multi_label":
                bad.report(where, "a list of labels needs --head=multi_label")
                continue
            label = options.label_separator.join(map(str, label))
        if isinstance(label, dict):
            bad.report(where, "the label is an object")
            continue
        yield where, texts, str(label)


def read_imdb(folder: str, bad: BadRows) -> list[TextExample]:
    """`pos/*.txt` and `neg/*.txt` of an aclImdb split, by name."""
    examples = []
    for label in ("neg", "pos"):
        directory = os.path.join(folder, label)
        names = sorted(_list_directory(directory))
        for name in names:
            if not name.endswith(".txt"):
                continue
            path = os.path.join(directory, name)
            before = bad.count
            lines = [text for _, text in task_readers.read_lines(path, bad)]
            if bad.count > before:
                continue
            text = " ".join(lines).replace("<br />", " ")
            if not text.strip():
                bad.report(f"{path}:1", "the review is empty")
                continue
            examples.append(
                TextExample(f"{label}/{name[:-4]}", (text,), label, f"{path}:1")
            )
    return examples


def _list_directory(path: str) -> list[str]:
    if "://" in path:
        import tensorflow as tf

        if tf.io.gfile.isdir(path):
            return tf.io.gfile.listdir(path)
    elif os.path.isdir(path):
        return os.listdir(path)
    raise UserError(f"{path} is no folder; wanted the aclImdb layout")


_JSON_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\[nrtbf\"\\/]")
_JSON_MEANING = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _json_escapes(text: str) -> str:
    """Yelp's texts are the insides of JSON strings: `\\n`, `\\"`, `\\u00e9`."""

    def meaning(match: re.Match) -> str:
        found = match.group()
        if found[1] != "u":
            return _JSON_MEANING.get(found[1], found[1])
        units = bytes.fromhex(found.replace("\\u", ""))
        return units.decode("utf-16-be", errors="replace")

    return _JSON_ESCAPE.sub(meaning, text)


def _bare_backslashes(text: str) -> str:
    """AG News: `\\$` is a dollar sign, every other backslash a line's end.

    The set's readme says that `\\n` stands for a line's end; there is none in
    the file: the `n` begins the next word ("do\\not know").
    """
    return text.replace("\\$", "$").replace("\\", "\n")


def _line_ends(text: str) -> str:
    """What the readmes say: `\\n` is a line's end and nothing else is escaped."""
    return text.replace("\\n", "\n")


ESCAPES = {
    "json": _json_escapes,
    "bare": _bare_backslashes,
    "readme": _line_ends,
}


def read_topic_csv(
    path: str,
    known: Mapping[str, int],
    bad: BadRows,
    text_fields: int,
    escapes: str,
) -> list[TextExample]:
    """The CSVs of Yelp, DBpedia, AG and Amazon: class number, then text.

    Args:
      path: a headerless quoted CSV.
      known: allowed class numbers as text.
      bad: receives bad rows.
      text_fields: columns of text after the class; they are joined.
      escapes: a key of `ESCAPES`; the sets do not share one way.
    """
    undo = ESCAPES[escapes]
    examples = []
    for row in task_readers.read_csv(path, bad, text_fields + 1):
        label, problem = parse_label(row.fields[0], "classification", known)
        text = " ".join(undo(f).strip() for f in row.fields[1:])
        if not problem and not text.strip():
            problem = "the text is empty"
        if problem:
            bad.report(row.where, problem)
            continue
        examples.append(
            TextExample(str(len(examples)), (text,), label, row.where)
        )
    return examples


def _latin1(line: bytes) -> str:
    # The one such byte of the official file is no letter: "sister\xf0city".
    return line.replace(b"\xf0", b" ").decode("latin-1")


def read_trec(
    path: str,
    bad: BadRows,
    known: Mapping[str, int] | None,
    fine: bool,
    need_label: bool,
) -> list[TextExample]:
    """TREC's question files: lines `COARSE:fine question`, UTF-8 or Latin-1.

    Args:
      path: e.g. `train_5500.label`.
      bad: receives lines of another form.
      known: allowed class names or None.
      fine: the label is `COARSE:fine` and not `COARSE`.
      need_label: False leaves the labels out (prediction).
    """
    examples = []
    for number, line in task_readers.read_lines(path, bad, _latin1):
        where = f"{path}:{number}"
        name, _, text = line.strip().partition(" ")
        coarse, colon, detail = name.partition(":")
        if not (coarse and colon and detail and text.strip()):
            bad.report(where, f"wanted `LABEL:fine text`, found {line[:60]!r}")
            continue
        label = None
        if need_label:
            label, problem = parse_label(
                name if fine else coarse, "classification", known
            )
            if problem:
                bad.report(where, problem)
                continue
        examples.append(
            TextExample(str(len(examples)), (text.strip(),), label, where)
        )
    return examples
