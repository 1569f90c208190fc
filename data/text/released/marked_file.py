"""What graphs of Unigram and of BPE by characters need of a `tokenizer.json`.

SentencePiece's models are of these kinds: text rules in the order of their
normalizer, words that begin with a mark, bytes for characters without a piece.
"""

import json
from typing import NamedTuple, NoReturn

from common.errors import UserError
from common.vocabularies.frames import rule_parts
from data.text.graph import added_tokens
from data.text.graph.added_tokens import AddedToken
from data.text.released import charsmap
from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import WORD_MARK

# Kinds of steps that a normalizer is made of.
REPLACE, COLLAPSE, TABLE, CHARSMAP, COMPOSE, PREPEND, STRIP = range(7)
# Rules that change each character for itself, so that a table has them.
_PLAIN = ("Lowercase", "StripAccents", "Nmt")
_APART = ("NFD", "NFKD")
_BLANKS = " {2,}"


class Step(NamedTuple):
    """One step of a normalizer."""

    # REPLACE a text by a character, COLLAPSE blanks into one; TABLE rewrites
    # single characters, CHARSMAP graphemes, too; COMPOSE characters; PREPEND a
    # mark; STRIP white space
    kind: int
    old: str = ""  # of REPLACE
    new: str = ""  # of REPLACE and COLLAPSE
    # of TABLE and CHARSMAP, as the file has them; COMPOSE's name; STRIP's sides
    rules: str = ""


class Marks(NamedTuple):
    """How a pre_tokenizer makes words."""

    split_white: bool  # words are what white space divides
    # "always", "first" or "never": which texts get a mark in front
    prepend: str
    split_mark: bool  # a mark begins a word


class MarkedFile(NamedTuple):
    """What both kinds need."""

    pieces: list[str]  # by id; "" where an id has none
    texts: list[bytes]  # what each id stands for in a text
    strip: bool  # a text of ids has no space in front
    # id of characters without a piece; -1: there are none
    unknown: int
    fuse: bool  # such characters side by side are one
    # id of every byte for characters without a piece, [] without them
    bytes: list[int]
    tokens: list[AddedToken]
    steps: list[Step]  # of the normalizer
    marks: Marks


def rules_of(offline: ReleasedTokenizer) -> dict:
    """The file as the package writes it: files of old versions name less."""
    return json.loads(offline.package.to_str())


def parse(offline: ReleasedTokenizer, unknown: int, marks: Marks) -> MarkedFile:
    """Reads what both kinds have; UserError: a rule that no graph has."""
    package, path, rules = offline.package, offline.path, rules_of(offline)
    model = rules["model"]
    tokens = added_tokens.read(rules, package, path)
    pieces = [package.id_to_token(i) or "" for i in range(offline.vocab_size)]
    byte_ids = _byte_ids(model, package)
    decoders = [
        row["type"] for row in rule_parts(rules.get("decoder"), "decoders")
    ]
    return MarkedFile(
        pieces,
        _texts(pieces, tokens, byte_ids if "ByteFallback" in decoders else []),
        bool({"Metaspace", "Strip"} & {*decoders}),
        unknown,
        True,
        byte_ids,
        tokens,
        _steps(rules, path),
        marks,
    )


def refuse(path: str, wanted: str, value: object) -> NoReturn:
    """Raises the UserError of a rule that no graph has."""
    raise UserError(
        f"{path}: wanted {wanted}, found {value}; a graph has no other: predict "
        "with --do_predict"
    )


def metaspace(rules: dict, path: str, others: str = "") -> Marks:
    """The marks of the pre_tokenizer Metaspace.

    `others` are named in the refusal of another one.
    """
    parts = rule_parts(rules.get("pre_tokenizer"), "pretokenizers")
    kinds = [row["type"] for row in parts]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        refuse(path, f"the pre_tokenizer {others}Metaspace", kinds)
    mark = parts[-1]
    if mark["replacement"] != WORD_MARK:
        refuse(path, f"the mark {WORD_MARK}", mark["replacement"])
    return Marks(len(parts) == 2, mark["prepend_scheme"], mark["split"])


def _byte_ids(model: dict, package) -> list[int]:
    if not model.get("byte_fallback"):
        return []
    ids = [package.token_to_id(f"<0x{byte:02X}>") for byte in range(256)]
    return [] if None in ids else ids


def _texts(pieces, tokens, byte_ids) -> list[bytes]:
    texts = [piece.replace(WORD_MARK, " ").encode() for piece in pieces]
    for byte, number in enumerate(byte_ids):
        texts[number] = bytes([byte])
    for token in tokens:
        texts[token.id] = b"" if token.special else token.text.encode()
    return texts


def _steps(rules: dict, path: str) -> list[Step]:
    parts = rule_parts(rules.get("normalizer"), "normalizers")
    kinds = [row["type"] for row in parts]
    steps: list[Step] = []
    table: list[dict] = []

    def close() -> None:
        if table:
            rule = {"type": "Sequence", "normalizers": list(table)}
            steps.append(Step(TABLE, rules=json.dumps(rule)))
            table.clear()

    for i, row in enumerate(parts):
        kind = row["type"]
        if kind in _PLAIN or (kind in _APART and "StripAccents" in kinds[i:]):
            table.append(row)
            continue
        close()
        if kind == "Replace":
            steps.append(_replace(row, path))
        elif kind == "Prepend" and row["prepend"] == WORD_MARK:
            steps.append(Step(PREPEND))
        elif kind == "Precompiled":
            steps.append(_charsmap(row, path))
        elif kind == "Strip":
            sides = [n for n in ("left", "right") if row[f"strip_{n}"]]
            steps.append(Step(STRIP, rules=" ".join(sides)))
        elif kind in ("NFC", "NFKC"):
            steps.append(Step(COMPOSE, rules=kind))
        else:
            refuse(
                path,
                "a normalizer of Replace, NFC, NFKC, Lowercase, Precompiled, "
                "Strip, Prepend of a mark, or of StripAccents with NFD or NFKD "
                "before it",
                kinds,
            )
    close()
    return steps


def _charsmap(row: dict, path: str) -> Step:
    table = row["precompiled_charsmap"]
    try:
        charsmap.read(table)
    except (ValueError, LookupError) as e:
        refuse(path, "a table of characters (precompiled_charsmap)", e)
    return Step(CHARSMAP, rules=table)


def _replace(row: dict, path: str) -> Step:
    pattern, new = row["pattern"], row["content"]
    if pattern.get("Regex") == _BLANKS and len(new) == 1:
        return Step(COLLAPSE, new=new)
    if not pattern.get("String") or len(new) != 1:
        refuse(path, "a Replace of one text by one character", row)
    return Step(REPLACE, pattern["String"], new)
