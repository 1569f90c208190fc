"""Tagged text: CoNLL columns, and JSON lines with character spans.

CoNLL: one token per line (`conll_lines`), an empty line after each sentence.
JSON lines:
`{"text": "Ada lives here", "spans": [{"start": 0, "end": 3, "label": "PER"}]}`.
Offsets are raw characters (code points), the end excluded.
"""

import dataclasses
import re
from collections.abc import Iterable

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.options import TaggingDataOptions
from data.finetuning.tables import table_columns, table_files
from data.finetuning.tagging import conll_lines

OUTSIDE = "O"
# Tags that name chunks, by their mark.
CHUNK = re.compile(r"[BIESLU]-.")
_COLUMNS = TaggingDataOptions()
TRAIN, DEV, TEST = "train", "dev", "test"
# Names that files of each split go by.
SPLIT_NAMES = {
    TRAIN: ("train", "eng.train"),
    DEV: ("dev", "valid", "validation", "testa", "eng.testa"),
    TEST: ("test", "testb", "eng.testb"),
}
COLUMN_SUFFIXES = ("conll", "conllu", "txt", "tsv", "bio", "iob", "iob2")
JSON_SUFFIXES = ("jsonl", "json")
# Of a header, which CoNLL files have not: names of both columns.
_TOKEN_NAMES = ("token", "tokens", "word", "words", "text", "form")
_TAG_NAMES = (
    *("tag", "tags", "label", "labels", "ner", "ner_tag", "ner_tags"),
    *("pos", "pos_tag", "pos_tags", "upos", "xpos"),
)
# Written without blanks between words: no blank is put between two of these.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003134f]"
)


@dataclasses.dataclass(frozen=True)
class TaggedText:
    """One text with its gold tags."""

    # its `id` in JSON lines, else its number in the file, from 0; texts that
    # are left out count
    guid: str | int
    text: str  # raw text; of CoNLL files the tokens, joined
    # (start, end) of each token (CoNLL) or of each span (JSON lines)
    units: tuple[tuple[int, int], ...]
    # one per unit; None where the file gives none. Of JSON lines the span's
    # label, without B- and I-
    tags: tuple[str, ...] | None
    # units are all tokens of the text, in order; else they are the spans, and
    # what they leave out is outside
    words: bool
    where: str  # "file:line", for messages


def find_split(data_dir: str, split: str) -> str | None:
    """The file of a split in a folder, plain or compressed; or None."""
    stems = SPLIT_NAMES.get(split, (split,))
    names = [
        f"{name}.{suffix}"
        for name in stems
        for suffix in (*COLUMN_SUFFIXES, *JSON_SUFFIXES)
    ]
    # CoNLL-2003's own files end with the names of their splits.
    return table_files.find_file(data_dir, *names, *stems)


def are_json_lines(data: TaggingDataOptions) -> bool:
    """Whether there are files and all of them are JSON lines."""
    named = (data.train_file, data.eval_file, data.predict_file)
    splits = SPLIT_NAMES if data.data_dir else ()
    found = (find_split(data.data_dir, split) for split in splits)
    paths = [path for path in (*named, *found) if path]
    return bool(paths) and all(map(table_columns.is_json_lines, paths))


def read(
    path: str,
    bad: BadRows,
    columns: TaggingDataOptions = _COLUMNS,
    labelled: bool = True,
) -> list[TaggedText]:
    """Every text of a file of CoNLL columns, or of JSON lines (by its name).

    Where no tags are needed, a CoNLL file of one column and JSON lines without
    spans will do. Raises UserError: nothing usable, or see `BadRows`.
    """
    if table_columns.is_json_lines(path):
        examples = _read_json_lines(path, bad, labelled)
    else:
        examples = _read_columns(path, bad, columns, labelled)
    if not examples:
        raise UserError(
            f"{path} holds no usable text; wanted a token and its tag per "
            "line and an empty line after each sentence, or JSON lines "
            'with "text" and "spans"'
        )
    return examples


def join_tokens(
    tokens: list[str], separator: str = "auto"
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Tokens as text, and where each lies in it.

    >>> join_tokens(["Ada", "lives"])
    ('Ada lives', ((0, 3), (4, 9)))
    >>> join_tokens(["\u6771", "\u4eac"])[1]
    ((0, 1), (1, 2))
    """
    parts, units, at = [], [], 0
    for i, token in enumerate(tokens):
        if i:
            blank = separator
            if separator == "auto":
                together = _UNSPACED.match(tokens[i - 1][-1]) and (
                    _UNSPACED.match(token[0])
                )
                blank = "" if together else " "
            parts.append(blank)
            at += len(blank)
        parts.append(token)
        units.append((at, at + len(token)))
        at += len(token)
    return "".join(parts), tuple(units)


def _read_columns(path, bad, columns, labelled) -> list[TaggedText]:
    examples: list[TaggedText] = []
    rows: list = []  # (token, tag) of a sentence; None of a bad line
    first, broken, wanted, skipped = 1, False, 0, 0
    lines = _lines(path)
    conllu, lines = conll_lines.is_conllu(path, lines)
    if conllu:
        wanted = conll_lines.CONLLU_COLUMNS
        if columns.text_column == 0:
            raise UserError(
                f"{path}: column 0 of CoNLL-U is a word's number: give "
                "--text_column=1 and e.g. --tag_column=3"
            )

    def finish() -> None:
        nonlocal skipped
        skipped += broken
        if rows and not broken:
            text, units = join_tokens(
                [t for t, _ in rows], columns.token_separator
            )
            tags = tuple(tag for _, tag in rows)
            examples.append(
                TaggedText(
                    len(examples) + skipped,
                    text,
                    units,
                    None if None in tags else tags,
                    True,
                    f"{path}:{first}",
                )
            )
        rows.clear()

    kept = conll_lines.rows_of_words if conllu else conll_lines.rows
    for number, line in kept(lines):
        if not line.strip():
            finish()
            first, broken = number + 1, False
            continue
        row, problem = _row(line, columns, labelled)
        if not isinstance(line, conll_lines.Unreadable):
            count = len(conll_lines.fields(line))
            if not wanted:
                _check_first(f"{path}:{number}", count, row, columns, labelled)
            wanted = wanted or count
            if not problem and count != wanted:
                problem = f"wanted {wanted} columns, found {count}"
        if problem and not broken:
            bad.report(f"{path}:{number}", problem)
        broken = broken or bool(problem)  # a sentence with a hole is none
        rows.append(row)
    finish()
    if wanted > 1:
        _check_words(path, examples, columns, wanted)
    _check_comments(examples)
    return examples


def _lines(path: str) -> conll_lines.Lines:
    """Every line; of one that is no text, its problem."""
    for number, line, problem in table_files.numbered_lines(path):
        yield number, conll_lines.Unreadable(problem) if problem else line


def _check_first(where, count: int, row, columns, labelled: bool) -> None:
    """Raises UserError where the first row of a file says that none is right.

    It is a header, or token and tag are one of its columns.
    """
    if labelled and _is_one_column(count, columns):
        raise UserError(
            f"{where}: --text_column={columns.text_column} and --tag_column="
            f"{columns.tag_column} are one column of {count}; name two"
        )
    if not row or row[1] is None:
        return
    token, tag = (name.lower() for name in row)
    if token in _TOKEN_NAMES and tag in _TAG_NAMES:
        raise UserError(
            f"{where}: wanted a token and its tag, found the header "
            f"{row[0]!r}, {row[1]!r}; delete the line: columns are known by "
            "number (--text_column, --tag_column)"
        )


def _check_words(path: str, examples: list[TaggedText], columns, count: int):
    """UserError: the column of the words, of so many columns, numbers them."""
    words = [[e.text[a:b] for a, b in e.units] for e in examples]
    if conll_lines.are_numbers(words):
        raise UserError(
            f"{path}: column {columns.text_column} holds the numbers of the "
            f"words, not the words: name the right ones of {count} columns, "
            "e.g. --text_column=1 --tag_column=2"
        )


def _check_comments(examples: list[TaggedText]) -> None:
    """UserError: a comment has as many columns as the rows, and was read as one.

    It begins a sentence with `#`, and its tag alone names no chunk.
    """
    opening, others = [], set()
    for example in examples:
        tags = list(example.tags or ())
        if tags and example.text[slice(*example.units[0])] == "#":
            opening.append((example.where, tags.pop(0)))
        others.update(tags)
    if not others or not all(map(_names_chunk, others)):
        return
    for where, tag in opening:
        if not _names_chunk(tag):
            raise UserError(
                f"{where}: wanted a token and its tag, found a comment, '#' "
                f"and {tag!r}: delete such lines"
            )


def _names_chunk(tag: str) -> bool:
    """Whether a tag is one of chunks: O, B-x, I-x and the like."""
    return tag == OUTSIDE or CHUNK.match(tag) is not None


def _is_one_column(count: int, columns: TaggingDataOptions) -> bool:
    """Whether token and tag are in the same of several columns."""
    text, tag = columns.text_column, columns.tag_column
    inside = all(-count <= n < count for n in (text, tag))
    return count > 1 and inside and (text - tag) % count == 0


def _row(line: str, columns: TaggingDataOptions, labelled: bool):
    """((token, tag), None) or (None, what is wrong)."""
    if isinstance(line, conll_lines.Unreadable):
        return None, str(line)
    fields = conll_lines.fields(line)
    try:
        token = fields[columns.text_column]
    except IndexError:
        return None, (
            f"wanted a token in column {columns.text_column}, found "
            f"{len(fields)} columns (--text_column)"
        )
    if not token.strip():
        return None, "the token is empty"
    alone = len(fields) == 1 or _is_one_column(len(fields), columns)
    if alone and not labelled:
        return (token, None), None
    try:
        tag = fields[columns.tag_column]
    except IndexError:
        tag = ""
    if len(fields) == 1 or not tag:
        if not labelled:
            return (token, None), None
        return None, (
            f"wanted a tag in column {columns.tag_column}, found "
            f"{len(fields)} columns (--tag_column)"
        )
    return (token, tag), None


def _read_json_lines(path, bad, labelled) -> list[TaggedText]:
    examples: list[TaggedText] = []
    before = bad.count
    read = table_files.read_accepted if labelled else table_files.read_jsonl
    for where, value in read(path, bad):
        text, spans = value.get("text"), value.get("spans")
        if not isinstance(text, str) or not text.strip():
            bad.report(where, "wanted a non-empty string 'text'")
            continue
        if spans is None and not labelled:
            tagged: tuple | None = None
        else:
            tagged, problem = _spans(text, spans)
            if problem:
                bad.report(where, problem)
                continue
        number = len(examples) + bad.count - before
        key = value.get(table_columns.find_key(value))
        examples.append(
            TaggedText(
                key if isinstance(key, str | int) else number,
                text,
                tuple((s, e) for s, e, _ in tagged or ()),
                None if tagged is None else tuple(t for _, _, t in tagged),
                False,
                where,
            )
        )
    return examples


def _spans(text: str, spans: object):
    """(sorted spans without white space at their ends, None) or a problem."""
    wanted = (
        "wanted 'spans', a list of "
        '{"start": characters, "end": characters, "label": name}'
    )
    if not isinstance(spans, list):
        return (), f"{wanted}, found {type(spans).__name__}"
    result = []
    for span in spans:
        if not isinstance(span, dict):
            return (), f"{wanted}, found {span!r:.60}"
        start, end, label = (span.get(k) for k in ("start", "end", "label"))
        whole = all(type(x) is int for x in (start, end))
        if not whole or not isinstance(label, str) or not label.strip():
            return (), f"{wanted}, found {span!r:.60}"
        if not 0 <= start < end <= len(text):
            return (), (
                f"the span {start} to {end} does not lie in the text of "
                f"{len(text)} characters"
            )
        if label.strip() == OUTSIDE:
            return (), f"{OUTSIDE!r} is what no span covers, not a label"
        piece = text[start:end]
        start += len(piece) - len(piece.lstrip())
        end -= len(piece) - len(piece.rstrip())
        if start >= end:
            return (), "a span holds white space only"
        result.append((start, end, label.strip()))
    result.sort()
    for one, other in zip(result, result[1:], strict=False):
        if other[0] < one[1]:
            return (), (
                f"the spans {one[0]} to {one[1]} and {other[0]} to "
                f"{other[1]} overlap; a tag is one per character"
            )
    return tuple(result), None


def join_tags(
    parts: Iterable[tuple[int, int, str]],
) -> list[tuple[int, int, str]]:
    """Spans (start, end, label) of a text's parts (start, end, tag), in order.

    I-, E- and L- continue an open span of their label, else they begin one, as
    in CoNLL's evaluation. E-, L-, S- and U- end theirs. What names no chunk is
    outside.

    >>> join_tags([(0, 3, "B-PER"), (4, 9, "E-PER"), (10, 12, "E-PER")])
    [(0, 9, 'PER'), (10, 12, 'PER')]
    """
    spans: list[list] = []
    open_label = None
    for start, end, tag in parts:
        if not CHUNK.match(tag):
            open_label = None
            continue
        mark, label = tag[0], tag[2:]
        if mark in "IEL" and label == open_label:
            spans[-1][1] = max(end, spans[-1][1])
        else:
            spans.append([start, end, label])
        open_label = None if mark in "ELSU" else label
    return [tuple(span) for span in spans]


def tag_names(examples: list[TaggedText]) -> tuple[str, ...]:
    """All tags of a training set, "O" first, then by name.

    Spans of JSON lines have B- and I- of each label.
    """
    names: set[str] = set()
    for example in examples:
        for tag in example.tags or ():
            names |= {tag} if example.words else {f"B-{tag}", f"I-{tag}"}
    spans = any(not e.words for e in examples)
    first = (OUTSIDE,) if spans or OUTSIDE in names else ()
    return first + tuple(
        sorted(names - {OUTSIDE}, key=lambda t: (t[2:], t) if spans else t)
    )
