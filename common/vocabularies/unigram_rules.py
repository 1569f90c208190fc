"""Text rules of ALBERT's, XLNet's and BERT's tokenizers in transformers 5.

Its classes take the pieces of a `tokenizer.json` or a `spiece.model` and put
rules of their own around them; `tokenizer_config.json` says which. Here they
are written into the file, so that whoever reads it has the same ids. BERT's
class has its rules where that file says the case: its default, lower case,
would spoil cased files that stand alone.
"""

import base64
import json
import os
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from common import files
from common.errors import UserError
from common.vocabularies import added_tokens
from common.vocabularies.spiece_messages import messages

# ALBERT's symbols among the first pieces of a SentencePiece file.
_SYMBOLS = b"\x0a\x05[CLS]", b"\x0a\x05[SEP]", b"\x0a\x06[MASK]"
_HEAD = 1 << 14  # bytes in which they stand
_MARK = "\u2581"
_NAMES = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_CLASSES = {"albert": "AlbertTokenizer", "xlnet": "XLNetTokenizer"}
_BERT = "BertTokenizer"
_BERTS = (_BERT, "DistilBertTokenizer", "ElectraTokenizer")
_BERTS += ("ConvBertTokenizer", "MobileBertTokenizer")
_OF_FILE = "modernbert"  # its tokenizer is the file's, whatever its class
# Settings of its class, their defaults, fields of its normalizer.
_BERT_FIELDS = (
    ("do_lower_case", True, "lowercase"),
    ("strip_accents", None, "strip_accents"),
    ("tokenize_chinese_chars", True, "handle_chinese_chars"),
)


def is_albert(path: str) -> bool:
    """Whether a SentencePiece file has ALBERT's symbols, not XLNet's."""
    try:
        with files.open_binary(path) as f:
            head = f.read(_HEAD)
    except Exception:  # whoever reads it says what is wrong
        return False
    return all(symbol in head for symbol in _SYMBOLS)


def class_of(config: Mapping, model_type: object) -> str:
    """The class of a folder's tokenizer, "" where nothing says it or it has no
    effect."""
    if model_type == _OF_FILE:
        return ""
    of_type = _CLASSES | {"bert": _BERT}
    name = config.get("tokenizer_class") or of_type.get(str(model_type), "")
    return str(name).removesuffix("Fast")


def with_class(value: dict[str, Any], kind: str, config: Mapping) -> None:
    """Puts a class's rules, where it has some, into a `tokenizer.json`."""
    model = value.get("model")
    rule = value.get("normalizer")
    if kind in _BERTS and isinstance(rule, dict):
        if rule.get("type") == "BertNormalizer":
            value["normalizer"] = rule | {
                field: config.get(name, default)
                for name, default, field in _BERT_FIELDS
                if name in config or "do_lower_case" in config
            }
        return
    if kind not in _CLASSES.values() or not isinstance(model, dict):
        return
    if isinstance(model.get("vocab"), list):
        # Files of old versions do not name it.
        value["model"] = {"type": "Unigram"} | model
        value["normalizer"] = _normalizer(value, kind, config)
        # XLNet's class takes no `add_prefix_space`.
        about = config if kind == _CLASSES["albert"] else {}
        parts = [{"type": "WhitespaceSplit"}, _metaspace(about)]
        value["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}


def has_class(value: dict[str, Any]) -> bool:
    """Whether a file holds such rules already."""
    rule = value.get("pre_tokenizer") or {}
    kinds = [r.get("type") for r in rule.get("pretokenizers") or ()]
    return kinds == ["WhitespaceSplit", "Metaspace"]


def takes_class(content: bytes) -> bool:
    """Whether `read_json` would put a class's rules into a file."""
    try:
        value = json.loads(content)
        unigram = isinstance(value["model"]["vocab"], list)
        return unigram and not has_class(value)
    except (ValueError, TypeError, LookupError, RecursionError):
        return False  # whoever reads it says what is wrong


def of_spiece(path: str, content: bytes, config: Mapping) -> bytes:
    """The `tokenizer.json` of ALBERT's `spiece.model`.

    Raises UserError: the file is damaged, or of another type than unigram.
    """
    proto = _parse(path, content)
    if proto.trainer_spec.model_type != proto.trainer_spec.UNIGRAM:
        raise UserError(
            f"{path}: wanted ALBERT's SentencePiece file of type unigram, "
            "found another type; give a tokenizer.json"
        )
    charsmap = proto.normalizer_spec.precompiled_charsmap
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens.with_rest(
            path,
            _added_tokens(proto, config),
            config,
            {piece.piece: i for i, piece in enumerate(proto.pieces)},
        ),
        "normalizer": {
            "type": "Precompiled",
            "precompiled_charsmap": base64.b64encode(charsmap).decode(),
        }
        if charsmap
        else None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": _metaspace(config),
        "model": {
            "type": "Unigram",
            "unk_id": proto.trainer_spec.unk_id,
            "vocab": [[p.piece, p.score] for p in proto.pieces],
            "byte_fallback": False,
        },
    }
    with_class(value, _CLASSES["albert"], config)
    return json.dumps(value, ensure_ascii=False).encode()


def _parse(path: str, content: bytes):
    """The messages of a SentencePiece file, whole."""
    try:
        proto = messages().ModelProto.FromString(content)
        unknown = proto.pieces[proto.trainer_spec.unk_id]
        # A file that ends early has the default number, of another piece.
        if unknown.type != messages().ModelProto.SentencePiece.UNKNOWN:
            raise ValueError(f"its unknown piece is {unknown.piece}")
    except (DecodeError, ValueError, IndexError) as e:
        raise UserError(
            f"{path}: wanted a SentencePiece model, but {e}; take another copy"
        ) from e
    return proto


def pieces_of_spiece(path: str, content: bytes) -> list[str]:
    """The pieces of a SentencePiece file by their ids; UserError if damaged."""
    return [piece.piece for piece in _parse(path, content).pieces]


def pieces_of(content: bytes) -> list[str]:
    """The pieces of a `tokenizer.json` by their ids, [] of another kind."""
    try:
        rows = json.loads(content)["model"]["vocab"]
        return [str(piece) for piece, _ in rows]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []


def read_json(path: str, content: bytes, config: Mapping) -> bytes:
    """A `tokenizer.json` with the rules of its folder's class.

    The content stays as it is without such a class in `config`, the
    `tokenizer_config.json` of the same folder.
    """
    try:
        value = json.loads(content)
        model_type = None
        if not has_class(value):
            beside = os.path.join(os.path.dirname(path), "config.json")
            if files.exists(beside):
                model_type = files.read_json_object(beside, "remove it").get(
                    "model_type"
                )
        kind = class_of(config, model_type)
        before = json.dumps(value)
        with_class(value, kind, config)
    except (ValueError, AttributeError, UserError, RecursionError):
        return content  # whoever reads it says what is wrong
    if json.dumps(value) == before:
        return content
    return json.dumps(value, ensure_ascii=False).encode()


def _normalizer(value: dict, kind: str, config: Mapping) -> dict:
    albert = kind == _CLASSES["albert"]
    rules: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": quote}, "content": '"'}
        for quote in ("``", "''")
    ]
    if not (albert and config.get("keep_accents", False)):
        rules += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if config.get("do_lower_case", albert):
        rules.append({"type": "Lowercase"})
    old = value.get("normalizer") or {}
    old = old.get("normalizers", [old])
    rules += [r for r in old if r.get("type") == "Precompiled"][:1]
    return {"type": "Sequence", "normalizers": rules}


def _metaspace(config: Mapping) -> dict:
    prefix = config.get("add_prefix_space", True)
    return {
        "type": "Metaspace",
        "replacement": _MARK,
        "prepend_scheme": "always" if prefix else "never",
        "split": True,
    }


def _added_tokens(proto, config: Mapping) -> list[dict]:
    """Symbols by name, control pieces and those that a user defined."""
    kinds = messages().ModelProto.SentencePiece
    ids = {piece.piece: i for i, piece in enumerate(proto.pieces)}
    special = {str(config.get(k) or name) for k, name in _NAMES.items()}
    is_special = dict.fromkeys(special & ids.keys(), True)
    for piece in proto.pieces:
        if piece.type in (kinds.CONTROL, kinds.USER_DEFINED):
            control = piece.type == kinds.CONTROL
            is_special.setdefault(piece.piece, control)
    return [
        {
            "id": ids[text],
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": is_special[text],
        }
        for text in sorted(is_special, key=ids.get)
    ]
