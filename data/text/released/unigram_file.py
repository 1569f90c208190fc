"""What a graph of Unigram needs of a `tokenizer.json`.

XLNet's and ALBERT's files are of this kind: text rules in the order of their
normalizer, words that begin with a mark, pieces with scores.
"""

import json
from typing import NamedTuple

from common.errors import UserError
from data.text.graph import added_tokens
from data.text.graph.added_tokens import AddedToken
from data.text.released.released_tokenizer import ReleasedTokenizer

# Kinds of steps that a normalizer is made of.
REPLACE, COLLAPSE, TABLE, CHARSMAP, COMPOSE = range(5)
# Rules that change each character for itself, so that a table has them.
_PLAIN = ("Lowercase", "StripAccents", "Nmt")
_APART = ("NFD", "NFKD")
_BLANKS = " {2,}"


class Step(NamedTuple):
    """One step of a normalizer."""

    # REPLACE a text by a character; COLLAPSE blanks; TABLE and CHARSMAP rewrite
    # single characters; COMPOSE characters
    kind: int
    old: str = ""  # of REPLACE, as `new`
    new: str = ""
    # of TABLE and CHARSMAP, as the file has them; COMPOSE's name
    rules: str = ""


class UnigramFile(NamedTuple):
    """What the graph needs of a `tokenizer.json`."""

    pieces: list[str]  # by id; "" where an id has none
    scores: dict[str, tuple[int, float]]  # by piece, with the id
    unknown: int  # id of characters without a piece
    unknown_score: float
    # id of every byte for characters without a piece, [] without them
    bytes: list[int]
    tokens: list[AddedToken]
    steps: list[Step]  # of the normalizer
    split_white: bool  # words are what white space divides
    # "always", "first" or "never": which texts get a mark in front
    prepend: str
    split_mark: bool  # a mark begins a word


def parse(offline: ReleasedTokenizer) -> UnigramFile:
    """Reads a Unigram `tokenizer.json`.

    Raises UserError: it holds a rule that the graph does not have.
    """
    package, path = offline.package, offline.path
    # As the package writes them: files of old versions have other names.
    rules = json.loads(package.to_str())
    model = rules["model"]
    if model.get("unk_id") is None:
        _refuse(path, "a model with an unk_id", "none")
    scores = {piece: (i, s) for i, (piece, s) in enumerate(model["vocab"])}
    split = _pre_tokenizer(rules, path)
    return UnigramFile(
        [package.id_to_token(i) or "" for i in range(offline.vocab_size)],
        {piece: row for piece, row in scores.items() if piece},
        model["unk_id"],
        min(score for _, score in model["vocab"]) - 10.0,
        _bytes(model, scores),
        added_tokens.read(rules, package, path),
        _steps(rules, path),
        *split,
    )


def _refuse(path: str, wanted: str, value: object) -> None:
    raise UserError(
        f"{path}: wanted {wanted}, found {value}; a graph of Unigram has no "
        "other: predict with --do_predict"
    )


def _bytes(model: dict, scores: dict) -> list[int]:
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    if not model.get("byte_fallback") or not scores.keys() >= set(names):
        return []
    return [scores[name][0] for name in names]


def _rows(rule: dict | None, field: str) -> list[dict]:
    """The parts of a rule of `tokenizer.json`, those of parts, too."""
    if not rule:
        return []
    if rule.get("type") != "Sequence":
        return [rule]
    return [part for one in rule[field] for part in _rows(one, field)]


def _pre_tokenizer(rules: dict, path: str) -> tuple[bool, str, bool]:
    rows = _rows(rules.get("pre_tokenizer"), "pretokenizers")
    kinds = [row["type"] for row in rows]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        _refuse(path, "the pre_tokenizer Metaspace", kinds)
    mark = rows[-1]
    if mark["replacement"] != "\u2581":
        _refuse(path, "the mark \u2581", mark["replacement"])
    return len(rows) == 2, mark["prepend_scheme"], mark["split"]


def _steps(rules: dict, path: str) -> list[Step]:
    rows = _rows(rules.get("normalizer"), "normalizers")
    kinds = [row["type"] for row in rows]
    steps: list[Step] = []
    table: list[dict] = []

    def close() -> None:
        if table:
            rule = {"type": "Sequence", "normalizers": list(table)}
            steps.append(Step(TABLE, rules=json.dumps(rule)))
            table.clear()

    for i, row in enumerate(rows):
        kind = row["type"]
        if kind in _PLAIN or (kind in _APART and "StripAccents" in kinds[i:]):
            table.append(row)
            continue
        close()
        if kind == "Replace":
            steps.append(_replace(row, path))
        elif kind == "Precompiled" and "StripAccents" in kinds[:i]:
            steps.append(Step(CHARSMAP, rules=json.dumps(row)))
        elif kind in ("NFC", "NFKC"):
            steps.append(Step(COMPOSE, rules=kind))
        else:
            _refuse(
                path,
                "a normalizer of Replace, NFC, NFKC, Lowercase, or of "
                "StripAccents with NFD, NFKD before and Precompiled behind it",
                kinds,
            )
    close()
    return steps


def _replace(row: dict, path: str) -> Step:
    pattern, new = row["pattern"], row["content"]
    if pattern.get("Regex") == _BLANKS and new == " ":
        return Step(COLLAPSE)
    if not pattern.get("String") or len(new) != 1:
        _refuse(path, "a Replace of one text by one character", row)
    return Step(REPLACE, pattern["String"], new)


def texts_of(file: UnigramFile) -> list[str]:
    """What each id stands for in a text; special tokens for nothing."""
    texts = [piece.replace("\u2581", " ") for piece in file.pieces]
    for token in file.tokens:
        texts[token.id] = "" if token.special else token.text
    return texts
