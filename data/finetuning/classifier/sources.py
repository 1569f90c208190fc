"""Classification data that is not GLUE: IMDB folders, CSVs, TREC, tables, tfds.

Each reader returns every row as a `TextExample` and reports bad ones to a
`BadRows`. Labels that the caller does not know are taken as they come.
"""

import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from common.errors import UserError
from data.finetuning.examples import BadRows, TextExample, collect
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.tables import quoted_rows, table_columns
from data.finetuning.tables import table_files as task_readers


def read_table(
    path: str,
    options: ClassifierDataOptions,
    bad: BadRows,
    known: Mapping[str, int] | None,
    need_label: bool,
) -> list[TextExample]:
    """Rows of a TSV, CSV or JSONL file (by its extension).

    Prediction needs no labels. Raises UserError: see `BadRows`, or the header
    lacks a wanted column.
    """
    if table_columns.is_json_lines(path):
        rows = _jsonl_rows(path, options, bad, need_label)
    else:
        rows = _table_rows(path, options, bad, need_label)

    def judged():
        for where, texts, label, key in rows:
            problem = None
            if not options.allow_empty_text and not all(map(str.strip, texts)):
                problem = "a text field is empty"
            yield (
                where,
                texts,
                (label or "") if need_label else None,
                key,
                problem,
            )

    return collect(judged(), bad, options.head, known, options.label_separator)


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
        label = _agreed(columns.label, label)
        key = row.fields[key_at].strip() if key_at is not None else ""
        yield row.where, [row.fields[i] for i in text_at], label, key


def _jsonl_rows(path, options, bad, need_label):
    """(where, texts, label text or names, id) of a JSONL file."""
    columns = table_columns.choose(
        *table_columns.object_names(path), options, need_label
    )
    bad.say(columns.describe(path))
    read = task_readers.read_accepted if need_label else task_readers.read_jsonl
    for where, value in read(path, bad):
        texts = [value.get(n) for n in columns.texts]
        if options.allow_empty_text:
            texts = ["" if t is None else t for t in texts]
        if not all(isinstance(t, str) for t in texts):
            bad.report(where, _no_string(columns.texts, texts))
            continue
        label = None  # a prediction looks at none
        if columns.label and need_label:
            label = value.get(columns.label)
        if label is None and need_label and options.head == "multi_label":
            bad.report(
                where,
                f"wanted labels under {columns.label!r}, found none; [] is a "
                "row without any",
            )
            continue
        label, problem = _json_label(
            _agreed(columns.label, label), options.head
        )
        if problem:
            bad.report(where, problem)
            continue
        key = value.get(columns.key) if columns.key else None
        yield where, texts, label, "" if key is None else str(key)


def _no_string(names: Sequence[str], texts: Sequence[object]) -> str:
    """What is wrong with the first of these texts that is none."""
    name, text = next(
        (name, text)
        for name, text in zip(names, texts, strict=True)
        if not isinstance(text, str)
    )
    problem = f"wanted strings under {list(names)}, found "
    if text is None:
        problem += f"none under {name!r} "
        return problem + "(--allow_empty_text takes none as empty)"
    return problem + f"{text!r:.60} under {name!r}"


def _agreed(column: str, label):
    """The label, "" where SNLI's and MultiNLI's annotators did not agree."""
    return "" if column == "gold_label" and label == "-" else label


def _json_label(label: object, head: str):
    """(text of a label or the names of a list, problem): one of both is None.

    Null is no label.
    """
    if isinstance(label, dict):
        return None, "the label is an object"
    for name in label if isinstance(label, list) else [label]:
        if isinstance(name, float) and not math.isfinite(name):
            return None, f"the label is {name}, wanted a name or a number"
    if not isinstance(label, list):
        text = str(label).lower() if isinstance(label, bool) else str(label)
        return ("" if label is None else text), None
    if head != "multi_label":
        return None, "a list of labels needs --multi_label"
    for name in label:
        if isinstance(name, bool) or not isinstance(name, str | int | float):
            return None, (
                "wanted strings or numbers in the list of labels, found "
                f"{name!r:.60}"
            )
    return tuple(map(str, label)), None


def read_imdb(folder: str, bad: BadRows) -> list[TextExample]:
    """`pos/*.txt` and `neg/*.txt` of an aclImdb split, by name."""
    examples = []
    for label in ("neg", "pos"):
        directory = os.path.join(folder, label)
        names = task_readers.text_files(directory)
        if names is None:
            raise UserError(
                f"{directory} is no folder; wanted the aclImdb layout"
            )
        for name in names:
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


_JSON_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\[nrtbf\"\\/]")
_JSON_MEANING = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def _json_escapes(text: str) -> str:
    """Yelp's texts are the insides of JSON strings: `\\n`, `\\"`, `\\u00e9`."""

    def meaning(match: re.Match) -> str:
        escape = match.group()
        if escape[1] != "u":
            return _JSON_MEANING.get(escape[1], escape[1])
        units = bytes.fromhex(escape.replace("\\u", ""))
        return units.decode("utf-16-be", errors="replace")

    return _JSON_ESCAPE.sub(meaning, text)


ESCAPES = {
    "json": _json_escapes,
    # AG News: `\$` is a dollar sign, every other backslash a line's end. The
    # set's readme says that `\n` stands for a line's end; there is none in the
    # file: the `n` begins the next word ("do\not know").
    "bare": lambda text: text.replace("\\$", "$").replace("\\", "\n"),
    # What the readmes say: `\n` is a line's end and nothing else is escaped.
    "readme": lambda text: text.replace("\\n", "\n"),
}


# What the column of the class is called in copies that have a header.
_CLASS_NAMES = ("class index", *table_columns.LABEL_NAMES)


def read_topic_csv(
    path: str,
    known: Mapping[str, int],
    bad: BadRows,
    text_fields: int,
    escapes: str,
) -> list[TextExample]:
    """The CSVs of Yelp, DBpedia, AG and Amazon: class number, then text.

    The columns of text after the class, so many, are joined. `escapes` is a key
    of `ESCAPES`; the sets do not share one way. A header, which copies of the
    sets have, is left out.
    """
    undo = ESCAPES[escapes]

    def rows():
        table = quoted_rows.read_csv(path, bad, text_fields + 1)
        for number, row in enumerate(table):
            if not number and row.fields[0].strip().lower() in _CLASS_NAMES:
                bad.say(f"{row.where} is a header: {', '.join(row.fields)}")
                continue
            text = " ".join(undo(f).strip() for f in row.fields[1:])
            problem = None if text.strip() else "the text is empty"
            yield row.where, (text,), row.fields[0], "", problem

    return collect(rows(), bad, "classification", known)


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

    The label is `COARSE:fine` with `fine`, else `COARSE`.
    """

    def rows():
        for where, name, text in trec_lines(path, bad):
            label = trec_label(name, fine) if need_label else None
            yield where, (text,), label, "", None

    return collect(rows(), bad, "classification", known)


def trec_lines(path: str, bad: BadRows) -> Iterator[tuple[str, str, str]]:
    """("file:line", `COARSE:fine`, question) of the lines; bad ones reported."""
    for number, line in task_readers.read_lines(path, bad, _latin1):
        name, _, text = line.strip().partition(" ")
        where, text = f"{path}:{number}", text.strip()
        coarse, colon, detail = name.partition(":")
        if coarse and colon and detail and text:
            yield where, name, text
        else:
            problem = f"wanted `LABEL:fine text`, found {line[:60]!r}"
            bad.report(where, problem)


def trec_label(name: str, fine: bool) -> str:
    """The class of `COARSE:fine`."""
    return name if fine else name.partition(":")[0]


_TFDS_SPLITS = {"dev": ("validation", "dev", "test"), "test": ("test",)}


def read_tfds(
    name: str,
    split: str,
    options: ClassifierDataOptions,
    bad: BadRows,
    known: Mapping[str, int] | None,
) -> list[TextExample]:
    """All examples of a split of `tensorflow_datasets` in the stored order.

    Needs that package and, the first time, a network. The columns are features.
    A split is "train", "dev" (validation, else test) or a name of the set.
    Raises UserError: the package or the set is not there, or see `BadRows`.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as e:
        raise UserError(
            f"--task_name=tfds:{name} needs `pip install tensorflow-datasets`"
        ) from e
    try:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    except Exception as e:  # registry, network and disk, each with its own
        line = str(e).strip().splitlines()
        raise UserError(
            f"--task_name=tfds:{name} cannot be prepared: "
            f"{type(e).__name__}: {line[0][:200] if line else ''}"
        ) from e
    chosen = _tfds_split(name, split, builder.info.splits)
    features = builder.info.features
    where = f"tfds:{name}/{chosen}"
    columns = table_columns.choose(
        where, list(features), options, need_label=True
    )
    bad.say(columns.describe(where))
    dataset = tfds.as_numpy(builder.as_dataset(split=chosen))
    names = getattr(features[columns.label], "int2str", None)

    def rows():
        for number, row in enumerate(dataset):
            label = _text(row[columns.label])
            if names is not None:  # -1 is no label
                number_of = int(row[columns.label])
                label = names(number_of) if number_of >= 0 else ""
            texts = [_text(row[n]) for n in columns.texts]
            problem = None
            if not options.allow_empty_text and not all(map(str.strip, texts)):
                problem = "a text field is empty"
            key = _text(row[columns.key]) if columns.key else str(number)
            yield f"{where}:{number}", texts, label, key, problem

    return collect(rows(), bad, options.head, known, options.label_separator)


def _tfds_split(name: str, split: str, there: Mapping) -> str:
    for candidate in _TFDS_SPLITS.get(split, (split,)):
        if candidate in there:
            return candidate
    raise UserError(
        f"tfds:{name} has no {split} split, only {', '.join(sorted(there))}"
    )


def _text(value) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
