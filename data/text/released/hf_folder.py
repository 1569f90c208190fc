"""What Hugging Face's `AutoTokenizer` needs beside the weights.

`tokenizer.json` with our ids, and `tokenizer_config.json`. Their class is the
one that reads the file as it is: those of single encoders (`XLNetTokenizer`,
`AlbertTokenizer`) put rules of their own in the place of the file's.
"""

import importlib
import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

from common import files, optional
from common.contract import symbols as symbols_lib
from common.vocabularies import vocabulary
from data.text.opening import open_tokenizer
from data.text.released import hf_tokenizer
from data.text.released.released_tokenizer import (
    REQUIREMENTS,
    ReleasedTokenizer,
)
from data.text.tokenizer import WORD_MARK, Tokenizer

_CLASS = "PreTrainedTokenizerFast"  # 4.x and 5.x know it
# Classes without symbols of their own.
_PLAIN = (_CLASS, "TokenizersBackend")
_NAMES = ("unk", "bos", "eos", "sep", "pad", "cls", "mask")
_PROBES = 2000
_HARD = ("2000, 12,000 and 1,999,999.", "\u0301a\u0327 e\u0302\u0301", "``a''")


def write(
    folder: str,
    layout: str,
    token_types: bool,
    max_length: int | None,
    reads_mask: bool,
    tuned: bool = False,
) -> tuple[symbols_lib.SymbolIds | None, list[str]]:
    """Completes a folder that holds a vocabulary.

    Gives the symbols' ids, None without a vocabulary; lines for the report.
    Raises UserError: the vocabulary cannot be read or has no form there.

    Args:
      folder: with the vocabulary and perhaps a `tokenizer_config.json`.
      layout: of rows, one of `common.contract.symbols.LAYOUTS`.
      token_types: whether the encoder reads segment ids.
      max_length: longest row; None = any.
      reads_mask: `<mask>` and other symbols in a text are symbols, as a filled
        text needs it; else they are text, as in our tasks.
      tuned: `max_length` is a task's, and holds for released tokenizers, too.
    """
    path = vocabulary.find(folder)
    if path is None:
        return None, []
    tokenizer = open_tokenizer(path)
    config_path = os.path.join(folder, vocabulary.HF_CONFIG)
    about = {}
    if files.exists(config_path):
        about = files.read_json_object(config_path, "remove it")
    if isinstance(tokenizer, ReleasedTokenizer):
        # Classes of Unigram would not take symbols that the file adds.
        kind = tokenizer.rules["model"].get("type")
        if kind != "Unigram" and not _is_partial(about):
            if tuned:
                about["model_max_length"] = max_length
                files.write_json(config_path, about)
            return tokenizer.symbols, []
        content = hf_tokenizer.with_template(tokenizer, layout)
        lines = []
    else:
        content = hf_tokenizer.build(tokenizer, layout)
        lines = _compared(tokenizer, content)
        about |= {
            "do_lower_case": tokenizer.settings.uncased,
            "keep_accents": tokenizer.settings.keep_accents,
            "remove_space": tokenizer.settings.remove_space,
            "split_special_tokens": not reads_mask,
        }
    about |= _config(tokenizer, layout, token_types, max_length)
    with files.atomic_open(os.path.join(folder, vocabulary.RELEASED_NAME)) as f:
        f.write(content)
    files.write_json(config_path, about)
    return tokenizer.symbols, lines


def _is_partial(about: Mapping[str, Any]) -> bool:
    """Whether a `tokenizer_config.json` lacks the symbols that its class needs.

    A copy of a vocabulary has none, or what its symbols and rows depend on.
    """
    return not about or (
        about.get("tokenizer_class") in _PLAIN and "cls_token" not in about
    )


def _config(tokenizer, layout: str, token_types: bool, max_length) -> dict:
    inputs = ["input_ids", *["token_type_ids"] * token_types, "attention_mask"]
    last = layout == symbols_lib.CLS_LAST
    config = {
        "tokenizer_class": _CLASS,
        "model_input_names": inputs,
        "padding_side": "left" if last else "right",
        "truncation_side": "right",
        "clean_up_tokenization_spaces": False,
    }
    if max_length is not None:
        config["model_max_length"] = max_length
    for name in _NAMES:
        index = getattr(tokenizer.symbols, name)
        if index >= 0:
            config[f"{name}_token"] = tokenizer.id_to_piece(index)
    return config


def _compared(tokenizer: Tokenizer, content: bytes) -> list[str]:
    """One line: how many of many made texts have the same ids."""
    name = vocabulary.RELEASED_NAME
    try:
        package = importlib.import_module("tokenizers")
    except ImportError:
        return [
            f"{name}: not compared with the vocabulary, the package tokenizers "
            f"is missing ({optional.cure(REQUIREMENTS)})"
        ]
    other = package.Tokenizer.from_str(content.decode())
    other.encode_special_tokens = True
    texts = probes(tokenizer)
    wrong = different(tokenizer, other, texts)
    line = (
        f"{name}: {len(texts) - len(wrong)} of {len(texts)} texts made of the "
        "vocabulary's pieces have our ids"
    )
    return [f"{line}; not {wrong[0]!r}" if wrong else line]


def different(tokenizer, package, texts: Sequence[str]) -> list[str]:
    """Texts that have other ids in an object of the package `tokenizers`."""
    encodings = package.encode_batch(list(texts), add_special_tokens=False)
    return [
        text
        for text, theirs in zip(texts, encodings, strict=True)
        if tokenizer.encode(text) != theirs.ids
    ]


def probes(tokenizer: Tokenizer, count: int = _PROBES) -> list[str]:
    """Texts made of pieces, drawn with a fixed seed; numbers with commas."""
    draw = random.Random(0)
    pieces = [
        tokenizer.id_to_piece(i).replace(WORD_MARK, " ")
        for i in range(tokenizer.vocab_size)
        if i not in tokenizer.symbols.never_filled()
    ]

    def part() -> str:
        if draw.random() < 0.1:
            return f" {draw.randrange(10 ** draw.randrange(1, 7)):,}, "
        return draw.choice(pieces)

    drawn = (
        "".join(part() for _ in range(draw.randrange(1, 20)))
        for _ in range(count - len(_HARD))
    )
    return [*_HARD, *drawn]
