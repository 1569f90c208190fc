"""Vocabulary files of released weights, in the form of `tokenizers` (L0).

`tokenizer.json` is that form. A `vocab.txt` (BERT's releases) holds the pieces
alone; the rules that belong to it are written down here, so that both files
are read by the same code.
"""

import json
from collections.abc import Mapping

from common.errors import UserError

JSON_NAME = "tokenizer.json"
VOCAB_NAME = "vocab.txt"
SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Code points of a word that is cut; the first BERT code had 200, the readers of
# its released weights have 100.
_LONGEST_WORD = 100
_PREFIX = "##"


def is_released(path: str) -> bool:
    """Whether a file is one of released weights, by its name."""
    return path.endswith((".json", ".txt"))


def as_json(path: str, content: bytes, config: Mapping) -> bytes:
    """The `tokenizer.json` that a file is or stands for.

    Args:
      path: names the file, and by its ending the form.
      content: its bytes.
      config: `tokenizer_config.json` of the same folder, {} without one.

    Raises:
      UserError: a `vocab.txt` that is not UTF-8 or lacks a symbol.
    """
    if path.endswith(".json"):
        return content
    pieces = _lines(path, content)
    # The last of two equal pieces counts, as in the readers of these files.
    numbers = {piece: i for i, piece in enumerate(pieces)}
    missing = [symbol for symbol in SYMBOLS if symbol not in numbers]
    if missing:
        raise UserError(
            f"{path}: wanted one WordPiece per line with {', '.join(SYMBOLS)} "
            f"among them, {', '.join(missing)} is missing; give the vocab.txt "
            "of a BERT, a tokenizer.json or a SentencePiece model"
        )
    lower = config.get("do_lower_case", _is_uncased(pieces))
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": numbers[symbol],
                "content": symbol,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for symbol in sorted(SYMBOLS, key=numbers.get)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
            "strip_accents": config.get("strip_accents"),
            "lowercase": bool(lower),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": _PREFIX, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": _PREFIX,
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": numbers,
        },
    }
    return json.dumps(value, ensure_ascii=False).encode()


def _lines(path: str, content: bytes) -> list[str]:
    """The pieces of a vocab.txt, one per line."""
    try:
        lines = content.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as e:
        raise UserError(
            f"{path}: wanted one WordPiece per line in UTF-8, but {e}; take "
            "another copy"
        ) from e
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _is_uncased(pieces: list[str]) -> bool:
    """An uncased vocabulary has no capital letters but in its symbols."""
    return not any(
        piece != piece.lower() for piece in pieces if piece[:1] != "["
    )
