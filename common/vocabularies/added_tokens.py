"""Tokens that a released folder adds to the pieces of its vocabulary file.

`added_tokens_decoder` of `tokenizer_config.json` lists them with their rules.
Older folders have `added_tokens.json` instead, text -> id, and
`special_tokens_map.json` says which of these stand for no text. Special tokens
that both name may be pieces of the vocabulary, which no list repeats.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from common import files
from common.errors import UserError

FILE_NAME = "added_tokens.json"
SPECIAL_NAME = "special_tokens_map.json"
RULES = ("single_word", "lstrip", "rstrip", "normalized", "special")
_KEY = "added_tokens_decoder"
# In the order in which those that are missing get their ids.
_NAMED = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_ADVICE = "copy the folder again"


def of_folder(folder: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """`tokenizer_config.json` with what the older files of a folder add to it.

    Raises UserError: one of these files is damaged.
    """
    about = dict(config)
    if _KEY in about:
        return about  # the older files say nothing then
    beside = os.path.join(folder, SPECIAL_NAME)
    if files.exists(beside):
        about |= files.read_json_object(beside, _ADVICE)
    path = os.path.join(folder, FILE_NAME)
    if not files.exists(path):
        return about
    special = {content for content, _ in _special(about)}
    rows = files.read_json_object(path, _ADVICE)
    if not all(type(number) is int for number in rows.values()):
        raise UserError(
            f"{path}: wanted an object of text and id, found another value; "
            + _ADVICE
        )
    about[FILE_NAME] = [
        {
            "id": number,
            "content": text,
            "special": text in special,
            # Else it is looked for in lower-cased text, say.
            "normalized": text not in special,
        }
        for text, number in rows.items()
    ]
    return about


def _special(value: Mapping[str, Any]) -> Iterator[tuple[str, Mapping]]:
    """Texts and rules of the special tokens that a file names, as they count."""
    named = [f"{name}_token" for name in _NAMED]
    lists = [key for key in value if key.endswith("_special_tokens")]
    others = [k for k in value if k.endswith("_token") and k not in named]
    for key in (*named, *others, *lists):
        tokens = value.get(key)
        if isinstance(tokens, dict) and key in lists:
            tokens = list(tokens.values())
        for token in tokens if isinstance(tokens, list) else [tokens]:
            rules = token if isinstance(token, dict) else {"content": token}
            if isinstance(rules.get("content"), str):
                yield rules["content"], rules


def special_rules(config: Mapping[str, Any]) -> dict[str, dict[str, bool]]:
    """By text the rules of special tokens whose folder says them."""
    return {
        text: {flag: bool(rules[flag]) for flag in RULES[:-1] if flag in rules}
        for text, rules in _special(config)
    }


def declared(path: str, config: Mapping[str, Any]) -> list[dict]:
    """Rows of a `tokenizer.json` for what the config lists, by id.

    `path` is the vocabulary file. Raises UserError: the list is damaged.
    """
    rows = config.get(_KEY)
    if not isinstance(rows, dict):
        return []
    try:
        return [
            _row(int(number), str(row["content"]), row)
            for number, row in sorted(rows.items(), key=lambda x: int(x[0]))
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as e:
        raise UserError(
            f"tokenizer_config.json beside {path}: {_KEY}: "
            "wanted ids with objects that have a content, found something "
            f"else ({type(e).__name__}); take another copy"
        ) from e


def _row(number: int, content: str, flags: Mapping[str, Any]) -> dict:
    known = {flag: bool(flags.get(flag)) for flag in RULES}
    return known | {"id": number, "content": content}


def without_special(content: bytes) -> bytes:
    """A `tokenizer.json` to which its special tokens are text in a text.

    They keep their ids as pieces of the model; those that are none stay.
    """
    try:
        value = json.loads(content)
        vocab = value["model"]["vocab"]
        pieces = {p if isinstance(p, str) else p[0] for p in vocab}
        value["added_tokens"] = [
            row
            for row in value.get("added_tokens") or ()
            if not row.get("special") or row["content"] not in pieces
        ]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return content  # whoever reads it says what is wrong
    return json.dumps(value, ensure_ascii=False).encode()


def completed(
    path: str,
    content: bytes,
    config: Mapping[str, Any],
    rows_there: int | None = None,
) -> bytes:
    """A `tokenizer.json` with the tokens that its folder names besides.

    Those that are no pieces follow the last id, as in transformers. The content
    stays as it is where nothing is missing.

    Args:
      path: the vocabulary file.
      config: what `of_folder` gave.
      rows_there: of the model's embedding table; None = not known. What would
        have none stays text: transformers fails at the first use of it.

    Raises:
      UserError: `added_tokens_decoder` is damaged.
    """
    named = {row["content"]: row for row in declared(path, config)}
    for text, flags in _special(config):
        named.setdefault(text, {**flags, "special": True})
    if not named:
        return content
    try:
        value = json.loads(content)
        rows = list(value.get("added_tokens") or ())
        known, there = {row["content"] for row in rows}, len(rows)
        missing = [text for text in named if text and text not in known]
        vocab = value["model"]["vocab"]
        if isinstance(vocab, list):
            vocab = {piece: i for i, (piece, _) in enumerate(vocab)}
        following = max([len(vocab), *(row["id"] + 1 for row in rows)])
        for text in missing:
            number = vocab.get(text, following)
            if rows_there is None or number < max(rows_there, len(vocab)):
                rows.append(_row(number, text, named[text]))
                following += number == following
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return content  # whoever reads it says what is wrong
    if len(rows) == there:
        return content
    value["added_tokens"] = sorted(rows, key=lambda row: row["id"])
    return json.dumps(value, ensure_ascii=False).encode()


def with_rest(
    path: str,
    symbols: list[dict],
    config: Mapping[str, Any],
    pieces: Mapping[str, int],
) -> list[dict]:
    """Rows for the symbols of a vocabulary and all that is added to it, by id.

    Args:
      path: the vocabulary file.
      symbols: rows for symbols among the pieces.
      config: what `of_folder` gave.
      pieces: ids by piece.

    Raises:
      UserError: ids that the package `tokenizers` would not give.
    """
    rows = {row["content"]: row for row in symbols}
    rows |= {row["content"]: row for row in declared(path, config)}
    for row in config.get(FILE_NAME, ()):
        rows[row["content"]] = _row(row["id"], row["content"], row)
    ordered = sorted(rows.values(), key=lambda row: row["id"])
    following = len(pieces)
    for row in ordered:
        wanted = pieces.get(row["content"], following)
        if row["id"] != wanted:
            raise UserError(
                f"added tokens beside {path}: wanted the id {wanted} for "
                f"{row['content'][:40]!r}, found {row['id']}: those that are "
                "no pieces follow the last piece, one after the other; copy "
                "the folder again or give a tokenizer.json"
            )
        following += row["content"] not in pieces
    return ordered
