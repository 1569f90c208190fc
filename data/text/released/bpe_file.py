"""What a graph of byte-level BPE needs of a `tokenizer.json`."""

import functools
from typing import NamedTuple

from common.vocabularies.frames import rule_parts
from data.text.graph import added_tokens
from data.text.graph.added_tokens import AddedToken
from data.text.released.marked_file import refuse
from data.text.released.released_tokenizer import ReleasedTokenizer

# Rules of a BPE whose pieces are more than their text.
OTHER_PIECES = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")


class Merges(NamedTuple):
    """Pairs of pieces that become one."""

    # (left id, right id, new id), the first is merged first
    rows: list[tuple[int, int, int]]
    # a merge can make a piece that an earlier one waits for
    one_at_a_time: bool


class BpeFile(NamedTuple):
    """What the graph needs of a `tokenizer.json`."""

    pieces: list[str]  # by id; "" where an id has none
    bytes: list[int]  # id of every byte
    merges: Merges
    words: dict[bytes, int]  # UTF-8 of words that are one piece, and their ids
    tokens: list[AddedToken]
    compose: bool  # text is brought into composed form (NFC)
    prefix_space: bool  # text between added tokens begins with a space


def parse(offline: ReleasedTokenizer) -> BpeFile:
    """Reads a byte-level BPE `tokenizer.json`.

    Raises UserError: it holds a rule that the graph does not have.
    """
    package, rules, path = offline.package, offline.rules, offline.path
    model = rules["model"]
    check_model(model, path, *OTHER_PIECES, "byte_fallback", "fuse_unk")
    split = _pre_tokenizer(rules, path)
    pieces = [package.id_to_token(i) or "" for i in range(offline.vocab_size)]
    return BpeFile(
        pieces,
        _byte_ids(model, path),
        read_merges(model),
        _words(package, model),
        added_tokens.read(rules, package, path),
        _composes(rules, path),
        bool(split.get("add_prefix_space")),
    )


def check_model(model: dict, path: str, *refused: str) -> None:
    """UserError where a BPE has one of some rules."""
    for name in refused:
        if model.get(name):
            refuse(path, f"a model without {name}", repr(model[name]))


def read_merges(model: dict) -> Merges:
    """The merges of a BPE by the ids of its pieces."""
    vocab = model["vocab"]
    rows = []
    for pair in model["merges"]:
        left, right = pair.split(" ") if isinstance(pair, str) else pair
        rows.append((vocab[left], vocab[right], vocab[left + right]))
    return Merges(rows, _needs_order(rows))


def _pre_tokenizer(rules: dict, path: str) -> dict:
    rows = rule_parts(rules.get("pre_tokenizer"), "pretokenizers")
    kinds = [row.get("type") for row in rows]
    if kinds != ["ByteLevel"] or not rows[0].get("use_regex", True):
        refuse(path, "the pre_tokenizer ByteLevel with its pattern", kinds)
    return rows[0]


def _composes(rules: dict, path: str) -> bool:
    rows = rule_parts(rules.get("normalizer"), "normalizers")
    kinds = [row.get("type") for row in rows]
    if set(kinds) - {"NFC"}:
        refuse(path, "a normalizer of NFC or none", kinds)
    return bool(kinds)


@functools.lru_cache(maxsize=1)
def _alphabet() -> dict[str, int]:
    """Character that stands for a byte in pieces -> the byte."""
    printable = (*range(33, 127), *range(161, 173), *range(174, 256))
    other = [b for b in range(256) if b not in printable]
    chars = {chr(b): b for b in printable}
    return chars | {chr(256 + i): b for i, b in enumerate(other)}


def _surface(piece: str) -> bytes | None:
    """The bytes that a piece stands for; None where it is no such piece."""
    alphabet = _alphabet()
    if not all(char in alphabet for char in piece):
        return None
    return bytes(alphabet[char] for char in piece)


def _byte_ids(model: dict, path: str) -> list[int]:
    ids = {b: model["vocab"].get(char) for char, b in _alphabet().items()}
    unknown = model["vocab"].get(model.get("unk_token"))
    missing = [b for b, number in ids.items() if number is None]
    if missing and unknown is None:
        refuse(path, "a piece for every byte or an unk_token", "neither")
    return [unknown if ids[b] is None else ids[b] for b in range(256)]


def _needs_order(merges) -> bool:
    """Whether all pairs of one rank may not be merged at once."""
    last = {new: rank for rank, (_, _, new) in enumerate(merges)}
    return any(
        rank < last.get(piece, -1)
        for rank, (left, right, _) in enumerate(merges)
        for piece in (left, right)
    )


def _words(package, model: dict) -> dict[bytes, int]:
    """Words that the package leaves whole, as UTF-8."""
    whole = bool(model.get("ignore_merges"))
    number_of = {}
    for piece, number in model["vocab"].items():
        surface = _surface(piece)
        if not surface:
            continue
        ids = [token.id for token in package.model.tokenize(piece)]
        if whole or ids == [number]:
            number_of[surface] = number
    return number_of


def texts_of(file: BpeFile) -> list[bytes]:
    """What each id stands for in a text; special tokens for nothing."""
    texts = [_surface(p) or p.encode() for p in file.pieces]
    for token in file.tokens:
        texts[token.id] = b"" if token.special else token.text.encode()
    return texts
