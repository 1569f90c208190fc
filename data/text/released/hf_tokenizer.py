"""A SentencePiece vocabulary as a `tokenizer.json`.

The file is that of the package `tokenizers`, which Hugging Face's
`AutoTokenizer` reads. It holds our text rules, SentencePiece's own, and the
pieces:

    raw -> normalizer -> words -> pieces -> CLS and SEP around them

Some rules have no exact form there; `compare` measures what that changes.

- Scores are summed in 64 bits there and in 32 bits by SentencePiece, so that
  near ties ("0 00" or "00 0") may go the other way.
- A piece that ends in digit and comma is cut again by us. There it is never
  taken, and the best cut without it may be another one.
- Composed characters are put together by NFKC there, which also orders marks.
- Tables of Unicode are the package's, not Python's.
"""

import functools
import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from common.contract import symbols as symbols_lib
from common.errors import UserError
from common.vocabularies.spiece_messages import messages
from data.text import composition, normalization
from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import WORD_MARK, Tokenizer

Rule = dict[str, Any]
# Code points of no character; they stand for others for a while.
_STAND_INS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
_NEVER = 12.0  # times the lowest score: no cut is as bad


def build(tokenizer: Tokenizer, layout: str) -> bytes:
    """The `tokenizer.json` of a vocabulary.

    Raises UserError: a kind of SentencePiece file that the package has not.
    """
    proto = messages().ModelProto.FromString(tokenizer.vocabulary.content)
    model = _model(proto, tokenizer)
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(tokenizer),
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                *_hidden_symbols(proto),
                *_our_rules(tokenizer),
                *_sentencepiece_rules(proto, tokenizer),
            ],
        },
        "pre_tokenizer": _metaspace(proto),
        "post_processor": _template(tokenizer, layout),
        "decoder": _metaspace(proto),
        "model": model,
    }
    return json.dumps(value, ensure_ascii=False).encode()


def with_template(tokenizer: ReleasedTokenizer, layout: str) -> bytes:
    """A released `tokenizer.json` that also puts CLS and SEP around texts."""
    value = tokenizer.rules | {"post_processor": _template(tokenizer, layout)}
    return json.dumps(value, ensure_ascii=False).encode()


# --- Pieces -------------------------------------------------------------------


def _model(proto, tokenizer: Tokenizer) -> Rule:
    """Unigram or BPE; pieces that no text gives have the worst score."""
    kinds = proto.trainer_spec
    if kinds.model_type == kinds.BPE:
        return _bpe(proto, tokenizer)
    if kinds.model_type != kinds.UNIGRAM:
        raise UserError(
            f"{tokenizer.path}: wanted a SentencePiece file of type unigram or "
            "bpe, the package tokenizers has no other; use --to_format=native"
        )
    kind = messages().ModelProto.SentencePiece
    normal = [p.score for p in proto.pieces if p.type == kind.NORMAL]
    lowest, highest = min(normal, default=0.0), max(normal, default=0.0)
    never = _NEVER * (lowest - 10.0)
    vocabulary = []
    for i, piece in enumerate(proto.pieces):
        score = piece.score
        if piece.type == kind.USER_DEFINED:
            # So SentencePiece prefers them.
            score = len(piece.piece.encode()) * highest - 0.1
        elif piece.type != kind.NORMAL or tokenizer.is_split(i):
            score = never
        vocabulary.append([piece.piece, score])
    return {
        "type": "Unigram",
        "unk_id": tokenizer.symbols.unk,
        "vocab": vocabulary,
        "byte_fallback": proto.trainer_spec.byte_fallback,
    }


def _bpe(proto, tokenizer: Tokenizer) -> Rule:
    """Every way to join two pieces to a third, the best piece first."""
    kind = messages().ModelProto.SentencePiece
    scores = {
        p.piece: p.score
        for i, p in enumerate(proto.pieces)
        if p.type == kind.NORMAL and not tokenizer.is_split(i)
    }
    merges = []
    for piece in sorted(scores, key=scores.get, reverse=True):
        for cut in range(1, len(piece)):
            pair = piece[:cut], piece[cut:]
            if pair[0] in scores and pair[1] in scores:
                merges.append(pair)
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": symbols_lib.UNK,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": proto.trainer_spec.byte_fallback,
        "ignore_merges": False,
        "vocab": {p.piece: i for i, p in enumerate(proto.pieces)},
        "merges": [list(pair) for pair in merges],
    }


def _added_tokens(tokenizer: Tokenizer) -> list[Rule]:
    """The control symbols; the mask takes the blanks before it along."""
    symbols = tokenizer.symbols
    named = ("unk", "bos", "eos", "cls", "sep", "pad", "mask")
    ids = sorted({getattr(symbols, name) for name in named} - {-1})
    return [
        {
            "id": index,
            "content": tokenizer.id_to_piece(index),
            "single_word": False,
            "lstrip": index == symbols.mask,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index in ids
    ]


def _metaspace(proto) -> Rule:
    inner = any(WORD_MARK in piece.piece[1:] for piece in proto.pieces)
    prefix = proto.normalizer_spec.add_dummy_prefix
    return {
        "type": "Metaspace",
        "replacement": WORD_MARK,
        "prepend_scheme": "first" if prefix else "never",
        "split": not inner,
    }


def _template(tokenizer: Tokenizer | ReleasedTokenizer, layout: str) -> Rule:
    """How one text and two become a row, with token types."""
    symbols = tokenizer.symbols
    cls, sep = map(tokenizer.id_to_piece, (symbols.cls, symbols.sep))

    def symbol(piece: str, kind: int) -> Rule:
        return {"SpecialToken": {"id": piece, "type_id": kind}}

    def text(name: str, kind: int, *after: str) -> list[Rule]:
        sequence = {"Sequence": {"id": name, "type_id": kind}}
        return [sequence, *(symbol(piece, kind) for piece in after)]

    between = symbols_lib.between(layout, symbols)
    second = int(not symbols_lib.has_one_segment(layout))
    one, two = text("A", 0, sep), text("B", second, sep)
    two = text("A", 0, *map(tokenizer.id_to_piece, between)) + two
    if layout == symbols_lib.CLS_LAST:
        end = [symbol(cls, symbols_lib.SEGMENT_CLS)]
        one, two = one + end, two + end
    else:
        start = [symbol(cls, 0)]
        one, two = start + one, start + two
    return {
        "type": "TemplateProcessing",
        "single": one,
        "pair": two,
        "special_tokens": {
            piece: {"id": piece, "ids": [index], "tokens": [piece]}
            for piece, index in ((cls, symbols.cls), (sep, symbols.sep))
        },
    }


# --- Normalisation ------------------------------------------------------------


def _replace(pattern: str, new: str) -> Rule:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": new}


def _class(points: Iterable[int]) -> str:
    """A class of a regular expression, as ranges of code points."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    parts = [rf"\x{{{a:X}}}-\x{{{b:X}}}" for a, b in ranges]
    return f"[{''.join(parts)}]"


def _hidden_symbols(proto) -> list[Rule]:
    """Symbols in raw text are text: their first unknown character says so.

    Where all characters of a symbol are pieces, its score keeps it away.
    """
    kind = messages().ModelProto.SentencePiece
    known = {p.piece for p in proto.pieces if p.type == kind.NORMAL}
    rules = []
    for piece in proto.pieces:
        text = piece.piece
        if piece.type == kind.NORMAL or piece.type == kind.USER_DEFINED:
            continue
        at = next((i for i, c in enumerate(text) if c not in known), None)
        if at is None or len(text) < 2:
            continue
        before, char, after = map(
            re.escape, (text[:at], text[at], text[at + 1 :])
        )
        rules.append(_replace(f"(?<={before}){char}(?={after})", _STAND_INS[0]))
    return rules


def _our_rules(tokenizer: Tokenizer) -> list[Rule]:
    """`data.text.normalization.normalise`."""
    settings, rules = tokenizer.settings, []
    if settings.remove_space:
        blanks = [ord(c) for c in composition.characters() if c.isspace()]
        rules.append(_replace(_class(blanks) + "+", " "))
    # Metaspace marks a word at a text's first character only, if that stays.
    rules += [_replace(r"\A(?:``|'')", ' "')]
    rules += [_replace("``", '"'), _replace("''", '"')]
    if not settings.keep_accents:
        marks = filter(unicodedata.combining, composition.characters())
        rules += [{"type": "NFKD"}, *_dropped(map(ord, marks))]
    if settings.uncased:
        rules += [_final_sigma(), {"type": "Lowercase"}]
    return rules


def _dropped(points: Iterable[int]) -> list[Rule]:
    """Takes characters away; at a text's beginning a blank stays."""
    pattern = _class(points) + "+"
    return [_replace(rf"\A{pattern}", " "), _replace(pattern, "")]


def _final_sigma() -> Rule:
    """Capital sigma behind a cased letter and before none."""
    cased, ignored = map(_class, normalization.sigma_classes())
    before = "|".join(f"(?<={cased}{ignored * n})" for n in range(3))
    return _replace(f"(?:{before})\\x{{3A3}}(?!{ignored}*{cased})", "\u03c2")


def _sentencepiece_rules(proto, tokenizer: Tokenizer) -> list[Rule]:
    """The file's own table: NFKC, and what differs from it by character."""
    spec, rules = proto.normalizer_spec, []
    kept: dict[str, str] = {}
    if spec.precompiled_charsmap:
        table = _table(tokenizer.vocabulary.content)
        groups: dict[str, list[int]] = {}
        for char, new in table.items():
            if new == char:
                kept[char] = _STAND_INS[len(kept) + 1]
            else:
                groups.setdefault(new, []).append(ord(char))
        for new, points in groups.items():
            if new:
                rules.append(_replace(_class(points), new))
            else:
                rules += _dropped(points)
        rules += [_replace(re.escape(c), other) for c, other in kept.items()]
        rules += _composed(tokenizer.settings.keep_accents)
        rules += [_replace(other, c) for c, other in kept.items()]
    if spec.remove_extra_whitespaces:
        rules += [_replace(" {2,}", " "), _replace(r" \z", "")]
    return rules


def _composed(with_marks: bool) -> list[Rule]:
    """NFKC; without marks in the text it orders nothing."""
    if not with_marks:
        return [{"type": "NFKC"}]
    stand_in = _STAND_INS[-1]
    return [
        _replace(_unordered_marks(), stand_in),
        {"type": "NFKC"},
        _replace(stand_in, ""),
    ]


@functools.lru_cache(maxsize=1)
def _unordered_marks() -> str:
    """A pattern of the places between marks that NFKC would exchange.

    SentencePiece orders no marks (shadda and fatha, as Arabic is typed), but
    composes characters of marks in either order.
    """
    classes: dict[int, list[int]] = {}
    composing = set()
    for char in composition.characters():
        if rank := unicodedata.combining(char):
            classes.setdefault(rank, []).append(ord(char))
        if unicodedata.normalize("NFC", char) == char:
            composing |= set(map(ord, unicodedata.normalize("NFD", char)[1:]))
    parts = []
    for rank, points in classes.items():
        higher = {p for r, ps in classes.items() if r > rank for p in ps}
        plain = set(points) - composing
        for before, after in (
            (higher, plain),
            (higher - composing, set(points) - plain),
        ):
            if before and after:
                parts.append(f"(?<={_class(before)})(?={_class(after)})")
    marks = _class(p for points in classes.values() for p in points)
    return f"(?<={marks})(?={marks})(?:{'|'.join(parts)})"


@functools.lru_cache(maxsize=2)
def _table(content: bytes) -> dict[str, str]:
    """What SentencePiece makes of a character, where NFKC makes another."""
    return {
        char: new
        for char, new in composition.each(model_proto=content)
        if new != unicodedata.normalize("NFKC", char)
    }
