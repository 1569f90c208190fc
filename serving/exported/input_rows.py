"""Files to predict -> one row per example, by the readers of fine-tuning.

CSV (quotes, line breaks inside), TSV and JSONL have the columns of training:
texts by name, the label beside them, a key. Text files hold one text per line,
files of tagged tokens a sentence in several (`tagged_rows`), SQuAD's a question
in an object (`squad_rows`).
Nothing is guessed silently: a column that is none of these is refused.
"""

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping

from common import encodings
from common.errors import UserError
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.tables import quoted_rows, table_columns
from data.finetuning.tables import table_files as task_readers
from data.finetuning.tables.table_columns import Columns, find_name, is_below
from serving.exported import squad_rows, tagged_rows
from serving.exported.rows import InputRow, Problems, finite
from serving.options import PredictOptions

# Inputs that come before others; a test has the heads.
_FIRST = ("query", "passage", "question", "paragraph", "documents")


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the columns of a file go."""

    texts: tuple  # column of each input, in order; names, or numbers from 0
    label: object = None  # column of the true label, or None
    key: object = None  # column of the row's key, or None
    rest: bool = False  # the last input takes all columns from its own on
    # makes one text of all `texts`, for sets that join theirs
    join: Callable[[list[str]], str] | None = None


def read_rows(
    inputs: Mapping[str, Mapping],
    description: Mapping,
    options: PredictOptions,
) -> Iterator[InputRow]:
    """Rows of `options.input_file`, bad ones included, in file order.

    `inputs` are name -> dtype and shape of the model's raw inputs, in order;
    `description` is its `signature.json`. Raises UserError: the columns are not
    the model's, or the file is unreadable.
    """
    path = options.input_file
    ending = os.path.splitext(task_readers.unpacked_name(path)[0])[1]
    problems = Problems()
    reader = _Reader(inputs, description, options)
    if tagged_rows.is_tagged(path, description):
        reader.check_plain(path, "tagged tokens")
        rows = tagged_rows.read(path, description)
    elif squad_rows.is_squad(path, description):
        reader.check_plain(path, "SQuAD's layout")
        rows = squad_rows.read(path)
    elif table_columns.is_json_lines(path):
        reader.refuse(["has_header"], ".csv and .tsv", path, "JSON lines")
        rows = map(reader.from_object, task_readers.read_jsonl(path, problems))
    elif ending in encodings.TABLES:
        rows = reader.from_table(quoted_rows.read_table(path, problems))
    elif ending == ".label" and reader.task in classifier_sets.TREC_SETS:
        reader.check_plain(path)
        rows = reader.from_trec(classifier_sources.trec_lines(path, problems))
    else:
        reader.check_plain(path)
        rows = (
            reader.from_line(f"{path}:{number}", line)
            for number, line in task_readers.read_lines(path, problems)
        )
    number, said = 0, set()
    for row in _interleaved(rows, problems):
        known = row.known if "key" in row.known else {"row": number} | row.known
        yield dataclasses.replace(row, known=known)
        number += 1
        _say([*reader.said, *problems.said, *problems.noted], said)
    if not number:
        below = " below its header" if reader.said else ""
        raise UserError(f"{path}:1: the file holds no row{below}")


def _say(lines: list[str], said: set[str]) -> None:
    """Lines about how a file is read, each once, on standard error."""
    for line in lines:
        if line not in said:
            said.add(line)
            print(line, file=sys.stderr)


def from_text(inputs, description, options, where: str, text: str) -> InputRow:
    """The row of one text of the command line."""
    reader = _Reader(inputs, description, options)
    reader.check_plain(where)
    return reader.from_line(where, text)


def in_order(inputs: Mapping[str, Mapping]) -> list[str]:
    """Names of a model's raw inputs as its head has them, lists last.

    `signature.json` has them by the alphabet.
    """

    def place(name: str) -> tuple[bool, int]:
        known = _FIRST.index(name) if name in _FIRST else len(_FIRST)
        return len(inputs[name]["shape"]) > 1, known

    return sorted(inputs, key=place)


def _interleaved(rows, problems: Problems) -> Iterator[InputRow]:
    """Good rows and, in their places, those that the reader left out."""
    for row in rows:
        yield from problems.taken()
        yield row
    yield from problems.taken()


class _Reader:
    """Lines, fields and objects -> rows; see `read_rows`."""

    def __init__(self, inputs, description, options: PredictOptions):
        self.lists = [n for n in inputs if len(inputs[n]["shape"]) > 1]
        self.names = in_order(inputs)
        self.options = options
        self.task = description.get("task", "")
        data = description.get("data_options", {})
        self.columns = list(data.get("columns", ()))
        self.texts = list(options.text_columns or data.get("text_columns", ()))
        tagger = description.get("head") == tagged_rows.TAGGER
        label = data.get("label_column", "spans" if tagger else "")
        self.label = options.label_column or label
        self.empty_allowed = bool(data.get("allow_empty_text"))
        self.said: list[str] = []

    def _check_cells(self, where: str) -> None:
        """Columns hold one list: all from its own on."""
        if len(self.lists) > 1:
            raise UserError(
                f"{where}: wanted JSON objects with the keys "
                f"{', '.join(self.names)}, as the model takes "
                f"{len(self.lists)} lists, found columns; give a .jsonl file"
            )

    def check_plain(self, where: str, found: str = "plain text") -> None:
        """UserError: a flag of columns, where there are none to choose."""
        columns = ("text_columns", "label_column", "key_column")
        self.refuse(columns, ".csv, .tsv and .jsonl", where, found)
        self.refuse(["has_header"], ".csv and .tsv", where, found)

    def refuse(self, flags, endings: str, where: str, found: str) -> None:
        """UserError: a flag is given that files of these endings follow."""
        for name in flags:
            if getattr(self.options, name):
                raise UserError(
                    f"{where}: --{name} is for {endings} files, found {found}; "
                    "leave it out or give such a file"
                )

    def from_line(self, where: str, line: str) -> InputRow:
        """One text, or several divided by tabs."""
        if len(self.names) == 1:
            return InputRow(where, {self.names[0]: line})
        self._check_cells(where)
        cells = line.split("\t")
        surplus = len(cells) > len(self.names) and not self.lists
        if len(cells) < len(self.names) or surplus:
            problem = (
                f"{where}: wanted {len(self.names)} texts divided by tabs "
                f"({', '.join(self.names)}), found {len(cells)}"
            )
            return InputRow(where, None, problem=problem)
        layout = Layout(tuple(range(len(self.names))), rest=bool(self.lists))
        return self._row(where, cells, layout)

    def from_trec(self, rows) -> Iterator[InputRow]:
        """TREC's question files; the class stands before the text."""
        for where, name, text in rows:
            name = classifier_sources.trec_label(name, self.task != "trec")
            yield self._row(where, [name, text], Layout((1,), 0))

    def from_table(self, rows) -> Iterator[InputRow]:
        """Rows of a TSV or CSV; the first may be the header."""
        layout = None
        for row in rows:
            if layout is None:
                names = [f.strip() for f in row.fields]
                header = self._is_header(row.where, names)
                layout = (
                    self._by_name(row.where, names)
                    if header
                    else self._by_number(row.where, names)
                )
                if header:
                    continue
            yield self._row(row.where, row.fields, layout)

    def _is_header(self, where: str, names: list[str]) -> bool:
        if self.options.has_header is not None:
            return self.options.has_header
        columns = self._text_names(names)
        if columns is None:
            wanted = self.texts or self.names
            table_columns.refuse_names(where, names, wanted, self.columns)
            return False
        return not table_columns.are_numbers(columns, names)

    def _text_names(self, names: list[str]) -> list[str] | None:
        """The columns of the texts, if these are names of columns."""
        for wanted in (self.texts, self.names):
            columns = [find_name(n, names) for n in wanted]
            if columns and None not in columns:
                return columns
        columns = [
            n for n in names if table_columns.TEXT_NAME.fullmatch(n.lower())
        ]
        if not self.texts and len(columns) == len(self.names):
            return columns
        return None

    def _by_name(self, where: str, names: list[str]) -> Layout:
        """Columns by the header's names, as numbers."""
        texts = self._text_names(names)
        label, key = self._others(where, names, texts) if texts else ("", "")
        taken = [n for n in (*(texts or ()), label, key) if n]
        if texts is None or any(names.count(n) > 1 for n in taken):
            raise UserError(
                f"{where}: wanted the columns "
                f"{', '.join(taken or self.texts or self.names)} once each, "
                f"found {names[:20]}; name the texts with --text_columns"
            )
        self._took(names, texts, label, key)
        at = names.index
        return Layout(
            tuple(at(n) for n in texts),
            at(label) if label else None,
            at(key) if key else None,
        )

    def _took(self, names, texts, label: str, key: str) -> None:
        columns = Columns(tuple(names), tuple(texts), label, key)
        self.said = [columns.describe(self.options.input_file)]

    def _others(self, where, names, texts) -> tuple[str, str]:
        """Names of the label's and the key's columns, "" without them."""
        rest = [n for n in names if n not in texts]
        for wanted in (self.options.label_column, self.options.key_column):
            if wanted and find_name(wanted, rest) is None:
                raise UserError(
                    f"{where}: wanted the column {wanted!r}, found {names[:20]}"
                )
        label = find_name(self.label, rest) if self.label else None
        if label is None:
            label_columns = [
                n
                for n in table_columns.label_candidates(rest)
                if find_name(n, self.columns) is None
            ]
            if len(label_columns) > 1:
                raise UserError(
                    f"{where}: wanted one column of the label, found "
                    f"{' and '.join(label_columns)}: name it with --label_column"
                )
            label = label_columns[0] if label_columns else ""
        others = [n for n in rest if n != label]
        key = table_columns.find_key(others)
        if wanted := self.options.key_column:
            key = find_name(wanted, others) or ""
        surplus = [
            n
            for n in others
            if n != key
            # A second one of a text's name, in other case, is none of training.
            and (find_name(n, self.columns) is None or find_name(n, texts))
        ]
        if surplus and not self.options.text_columns:
            raise UserError(
                f"{where}: the columns {surplus[:20]} are no text of the model "
                f"({', '.join(texts)}), no label and no key: take them out, or "
                "name the texts with --text_columns (and --label_column, "
                "--key_column)"
            )
        return label, key

    def _by_number(self, where: str, fields: list[str]) -> Layout:
        """Columns of a file without a header."""
        if len(self.names) > 1:
            self._check_cells(where)
        layout = self._texts_by_number(where, fields)
        used = layout.texts
        if layout.rest:
            used = range(len(fields))
        for kind in ("label", "key"):
            flag = f"{kind}_column"
            name = getattr(self.options, flag)
            if not name:
                continue
            (number,) = self._numbers(where, flag, (name,), fields)
            if number in used:
                raise UserError(
                    f"{where}: --{flag}={name}: the column {number} is a text "
                    "already; number the texts from 0 with --text_columns"
                )
            layout = dataclasses.replace(layout, **{kind: number})
        return layout

    def _numbers(self, where, flag, names, fields) -> tuple[int, ...]:
        """What a flag says of the columns; UserError: no such numbers."""
        for name in names:
            if not is_below(name, len(fields)):
                raise UserError(
                    f"{where}: --{flag}: wanted a number from 0 to "
                    f"{len(fields) - 1}, as the first row is no header that "
                    f"names the texts, found {name!r}; columns {fields[:20]}"
                )
        return tuple(map(int, names))

    def _texts_by_number(self, where: str, fields: list[str]) -> Layout:
        """The texts of `_by_number`, and the label where it was in training."""
        count, wanted = len(fields), len(self.names)
        given = self.options.text_columns
        if given or count == len(self.columns):
            if given:
                self._numbers(where, "text_columns", given, fields)
            label = self.label if is_below(self.label, count) else None
            # A label that only training names may lie elsewhere here.
            known = given or label or not self.label
            if known and all(is_below(n, count) for n in self.texts):
                texts = tuple(map(int, self.texts))
                label = None if label is None else int(label)
                return Layout(texts, None if label in texts else label)
        topic = classifier_sets.TOPIC_SETS.get(self.task)
        if topic and count == topic[1] + 1:
            undo = classifier_sources.ESCAPES[topic[2]]
            return Layout(
                tuple(range(1, count)),
                0,
                join=lambda texts: " ".join(undo(t).strip() for t in texts),
            )
        if count == wanted or (self.lists and count > wanted):
            return Layout(tuple(range(wanted)), rest=bool(self.lists))
        raise UserError(
            f"{where}: wanted {wanted} columns ({', '.join(self.names)}) or a "
            f"header that names {', '.join(self.texts or self.names)}, found "
            f"{count} columns; number the texts from 0 with --text_columns"
        )

    def from_object(self, item: tuple[str, dict]) -> InputRow:
        """One object of a JSONL file."""
        where, value = item
        if self.empty_allowed and self.texts:
            # As in training: none is an empty text.
            found = {n: find_name(n, value) for n in self.texts}
            value = {n: "" for n, key in found.items() if key is None} | {
                k: "" if v is None and k in found.values() else v
                for k, v in value.items()
            }
        names = list(value)
        texts = self._text_names(names)
        if texts is None:
            wanted = self.texts or self.names
            return InputRow(
                where,
                None,
                problem=f"{where}: wanted an object with the keys {wanted}, "
                f"found {names[:20]}",
            )
        label, key = self._others(where, names, texts)
        if not self.said:
            self._took(names, texts, label, key)
        layout = Layout(tuple(texts), label or None, key or None)
        return self._row(where, value, layout)

    def _row(self, where: str, values, layout: Layout) -> InputRow:
        texts = [values[at] for at in layout.texts]
        if layout.join:
            texts = [layout.join(texts)]
        if len(texts) != len(self.names):
            raise UserError(
                f"{where}: wanted {len(self.names)} texts, as the model takes, "
                f"found {len(texts)} (--text_columns)"
            )
        if layout.rest:
            texts[-1] = list(values[layout.texts[-1] :])
        known = {}
        if layout.key is not None:
            known["key"] = finite(values[layout.key])
        if layout.label is not None:
            known["true_label"] = finite(values[layout.label])
        return InputRow(where, dict(zip(self.names, texts, strict=True)), known)
