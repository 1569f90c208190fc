"""Vocabulary files of released weights, in the form of `tokenizers`.

`tokenizer.json` is that form. A `vocab.txt` (BERT's releases) holds the pieces
alone, a `vocab.json` (GPT-2's and RoBERTa's) stands beside its `merges.txt`, and
ALBERT's `spiece.model` has other rules than ours (`common.vocabularies.unigram_rules`); the
rules that belong to them are written down here, so that all files are read by
the same code.
"""

import json
import os
from collections.abc import Mapping

from common.errors import UserError
from common.vocabularies import added_tokens, frames, unigram_rules

JSON_NAME = "tokenizer.json"
VOCAB_NAME = "vocab.txt"
BPE_NAME = "vocab.json"
MERGES_NAME = "merges.txt"
SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NAMES = ("pad", "unk", "cls", "sep", "mask")
# Code points of a word that is cut; the first BERT code had 200, the readers of
# its released weights have 100.
_LONGEST_WORD = 100
_PREFIX = "##"
# Symbols of byte-level vocabularies, where nothing beside them says which.
_BPE_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")
# Classes of transformers that read the two forms by these rules; "Fast" is left
# out. Of others a file is not enough: BertJapaneseTokenizer asks MeCab.
_ANY = ("", "PreTrainedTokenizer", "TokenizersBackend")
_WORDPIECE = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_WORDPIECE += ("ConvBertTokenizer", "MobileBertTokenizer", *_ANY)
_BYTE_LEVEL = ("GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", *_ANY)


def is_released(path: str) -> bool:
    """Whether a file is one of released weights: by its name, or ALBERT's."""
    if path.endswith((".json", ".txt")):
        return True
    return path.endswith(".model") and unigram_rules.is_albert(path)


def as_json(
    path: str,
    content: bytes,
    config: Mapping,
    merges: bytes | None = None,
    rows_there: int | None = None,
) -> bytes:
    """The `tokenizer.json` that a file is or stands for.

    Args:
      path: names the file, and by its name the form.
      config: `added_tokens.of_folder` of the same folder, {} without one.
      rows_there: see `added_tokens.completed`.

    Raises:
      UserError: a `vocab.txt` that is not UTF-8 or lacks a symbol, a
        `vocab.json` without its merges or with merges of other pieces, either
        of a class with other rules.
    """
    made = _made(path, content, config, merges)
    made = added_tokens.completed(path, made, config, rows_there)
    if config.get("split_special_tokens") is True:
        return added_tokens.without_special(made)
    return made


def _made(
    path: str, content: bytes, config: Mapping, merges: bytes | None
) -> bytes:
    """`as_json` by the form of the file."""
    if os.path.basename(path) == BPE_NAME:
        _check_class(path, config, _BYTE_LEVEL)
        return _byte_level(path, content, config, merges)
    if path.endswith(".json"):
        return unigram_rules.read_json(path, content, config)
    if path.endswith(".model"):
        return unigram_rules.of_spiece(path, content, config)
    _check_class(path, config, _WORDPIECE)
    return _wordpiece(path, content, config)


def _wordpiece(path: str, content: bytes, config: Mapping) -> bytes:
    """The `tokenizer.json` of a `vocab.txt`."""
    pieces = _lines(path, content)
    # The last of two equal pieces counts, as in the readers of these files.
    numbers = {piece: i for i, piece in enumerate(pieces)}
    symbols = [
        frames.declared_piece(config, name) or usual
        for name, usual in zip(_NAMES, SYMBOLS, strict=True)
    ]
    # Others that the folder names follow the pieces.
    wanted = [s for s in symbols if s in SYMBOLS or s == symbols[1]]
    missing = [symbol for symbol in wanted if symbol not in numbers]
    if missing:
        raise UserError(
            f"{path}: wanted one WordPiece per line with {', '.join(wanted)} "
            f"among them, {', '.join(missing)} is missing; give the vocab.txt "
            "of a BERT, a tokenizer.json or a SentencePiece model"
        )
    lower = config.get("do_lower_case", _is_uncased(pieces))
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens.with_rest(
            path, _added(numbers, symbols, config), config, numbers
        ),
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
            "unk_token": symbols[1],
            "continuing_subword_prefix": _PREFIX,
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": numbers,
        },
    }
    return json.dumps(value, ensure_ascii=False).encode()


def _check_class(path: str, config: Mapping, known: tuple[str, ...]) -> None:
    """UserError where a class of another kind belongs to a file."""
    name = unigram_rules.class_of(config, "")
    if name not in known:
        raise UserError(
            f"{path}: wanted a tokenizer of class {known[0]} or one with its "
            f"rules, found the tokenizer_class {name}, which cuts text "
            "otherwise; give a tokenizer.json"
        )


def _added(numbers: Mapping[str, int], symbols, config: Mapping) -> list[dict]:
    """Symbols as added tokens, by id."""
    no = dict.fromkeys(added_tokens.RULES, False) | {"special": True}
    known = [symbol for symbol in symbols if symbol in numbers]
    said = added_tokens.special_rules(config)
    return [
        # The mask takes the blank before it along, as its readers have it.
        no
        | {"id": numbers[s], "content": s, "lstrip": s == "<mask>"}
        | said.get(s, {})
        for s in sorted(known, key=numbers.get)
    ]


def _byte_level(path, content, config, merges) -> bytes:
    """The `tokenizer.json` of a `vocab.json` with its `merges.txt`."""
    try:
        numbers = json.loads(content)
        if not isinstance(numbers, dict) or not all(
            type(number) is int for number in numbers.values()
        ):
            raise ValueError("it is not an object of piece and id")
    except ValueError as e:
        raise UserError(
            f"{path}: wanted the pieces of a byte-level BPE with their ids, "
            f"but {e}; take another copy"
        ) from e
    if merges is None:
        raise UserError(
            f"{path}: wanted {MERGES_NAME} beside it, found none; copy both "
            "files or give a tokenizer.json"
        )
    symbols = _added(numbers, (*SYMBOLS, *_BPE_SYMBOLS), config)
    value = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens.declared(path, config)
        or added_tokens.with_rest(path, symbols, config, numbers),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": bool(config.get("add_prefix_space", False)),
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": numbers,
            "merges": _merges(path, merges, numbers),
        },
    }
    return json.dumps(value, ensure_ascii=False).encode()


def _merges(path: str, content: bytes, numbers: Mapping) -> list[tuple]:
    """The pairs of the `merges.txt` beside a `vocab.json`."""
    merges_path = os.path.join(os.path.dirname(path), MERGES_NAME)
    pairs: dict[tuple, None] = {}  # of equal ones the last counts
    for number, line in enumerate(_lines(merges_path, content), 1):
        if line.startswith("#version") or not line:
            continue
        pair = tuple(line.split(" ")[:3])
        if len(pair) != 2 or not {*pair, "".join(pair)} <= numbers.keys():
            raise UserError(
                f"{merges_path}:{number}: wanted two pieces of {BPE_NAME} whose "
                f"whole is a piece, too, found {line[:60]!r}; take both files "
                "from one folder"
            )
        pairs.pop(pair, None)
        pairs[pair] = None
    return list(pairs)


def _lines(path: str, content: bytes) -> list[str]:
    """The lines of a vocab.txt or merges.txt."""
    try:
        lines = content.decode("utf-8").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as e:
        raise UserError(
            f"{path}: wanted lines in UTF-8, but {e}; take another copy"
        ) from e
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _is_uncased(pieces: list[str]) -> bool:
    """An uncased vocabulary has no capital letters but in its symbols."""
    return not any(
        piece != piece.lower() for piece in pieces if piece[:1] != "["
    )
