"""Classification data that is not GLUE: IMDB folders, CSVs, TREC, tables.

Each reader returns every row as a `TextExample` and reports bad ones to a
`BadRows`. Labels that the caller does not know are taken as they come.
"""

import itertools
import os
import re
from collections.abc import Mapping

from common.errors import UserError
from data.finetuning.examples import BadRows, TextExample, parse_label
from data.finetuning.tables import quoted_rows, table_columns
from data.finetuning.tables import table_files as task_readers
from data.finetuning.tables.table_columns import TableOptions


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
    if table_columns.is_json_lines(path):
        rows = _jsonl_rows(path, options, bad, need_label)
    else:
        rows = _table_rows(path, options, bad, need_label)
    examples, skipped = [], bad.count
    for where, texts, label_text, key in rows:
        # Rows are numbered as the file has them, those that are bad, too.
        guid = key or str(len(examples) + bad.count - skipped)
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
        examples.append(TextExample(guid, tuple(texts), label, where))
    return examples


def _table_rows(path, options, bad, need_label):
    """(where, texts, label text, id) of a TSV or CSV file."""
    rows = quoted_rows.read_table(path, bad)
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path}:1: the file is empty")
    names = [str(i) for i in range(len(first.fields))]
    if options.has_header:
        names = [f.strip() for f in first.fields]
        first = next(rows, None)
        if first is None and not bad.count:
            raise UserError(
                f"{path}:1: the file holds its header and no row below it"
            )
    columns = table_columns.choose(f"{path}:1", names, options, need_label)
    bad.say(columns.describe(path))
    text_at = [names.index(n) for n in columns.texts]
    label_at = names.index(columns.label) if columns.label else None
    key_at = names.index(columns.key) if columns.key else None
    for row in itertools.chain([first] if first else [], rows):
        label = row.fields[label_at] if label_at is not None else None
        key = row.fields[key_at].strip() if key_at is not None else ""
        yield row.where, [row.fields[i] for i in text_at], label, key


def _jsonl_rows(path, options, bad, need_label):
    """(where, texts, label text, id) of a JSONL file."""
    columns = table_columns.choose(
        *table_columns.object_names(path), options, need_label
    )
    bad.say(columns.describe(path))
    for where, value in task_readers.read_jsonl(path, bad):
        texts = [value.get(n) for n in columns.texts]
        if options.allow_empty_text:
            texts = ["" if t is None else t for t in texts]
        if not all(isinstance(t, str) for t in texts):
            problem = f"wanted strings under {list(columns.texts)}"
            if None in texts:
                problem += (
                    f", found none under {columns.texts[texts.index(None)]!r} "
                    "(--allow_empty_text takes none as empty)"
                )
            bad.report(where, problem)
            continue
        label = value.get(columns.label) if columns.label else None
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
        key = value.get(columns.key) if columns.key else None
        yield where, texts, str(label), "" if key is None else str(key)


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
            text = task_readers.read_text(path, bad)
            if bad.count > before:
                continue
            text = text.replace("\n", " ").replace("<br />", " ")
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
    raise UserError(f"{path} is not a folder; wanted the aclImdb layout")


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
    examples, skipped = [], bad.count
    for row in quoted_rows.read_csv(path, bad, text_fields + 1):
        label, problem = parse_label(row.fields[0], "classification", known)
        text = " ".join(undo(f).strip() for f in row.fields[1:])
        if not problem and not text.strip():
            problem = "the text is empty"
        if problem:
            bad.report(row.where, problem)
            continue
        guid = str(len(examples) + bad.count - skipped)
        examples.append(TextExample(guid, (text,), label, row.where))
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
    examples, skipped = [], bad.count
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
        guid = str(len(examples) + bad.count - skipped)
        examples.append(TextExample(guid, (text.strip(),), label, where))
    return examples
