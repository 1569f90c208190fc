"""Tiny released folders, one of each kind of tokenizer, and data for them."""

import json
import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import sentencepiece
import tensorflow as tf

from data.text.opening import AnyTokenizer, open_tokenizer
from modeling import XLNetConfig
from modeling.checkpoints import conversion, hf_files
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.heads import table as heads
from tests.helpers import released
from tests.helpers.runs import builds
from tests.training.finetuning.ranking import toy

SIZES = {"d_model": 12, "n_layer": 2, "n_head": 2, "d_inner": 18}
# Combining marks, U+0130, joined emoji, full width, CRLF, U+FFFD.
TEXTS = [
    "the red river",
    "A green tower, 2,000 boats?",
    "\u039f\u0394\u039f\u03a3 caf\u00e9 e\u0301a \ufb01ne \u00bd \u0130st",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 it's 19, ``so'' \uff41\ufffd",
]
FILES = ("spiece.model", "tokenizer.json", "vocab.txt")


def _xlnet_spiece(folder):
    builds.train_spiece(folder, builds.write_corpus(folder / "c.txt"))


def _xlnet_json(folder):
    path = builds.train_spiece(folder, builds.write_corpus(folder / "c.txt"))
    released.unigram_json(folder, path)
    (folder / "spiece.model").unlink()


def _albert_json(folder):
    """As transformers saves it: without `spiece.model`."""
    path = released.albert(folder, do_lower_case=True)
    content = open_tokenizer(path).vocabulary.content
    (folder / "tokenizer.json").write_bytes(content)
    (folder / "spiece.model").unlink()


def _vocab_alone(folder):
    released.wordpiece_folder(folder)
    (folder / "tokenizer_config.json").unlink()


def _wordpiece_json(folder):
    content = open_tokenizer(released.wordpiece_folder(folder)).vocabulary
    (folder / "tokenizer.json").write_bytes(content.content)
    (folder / "vocab.txt").unlink()


# Name -> (model_type, what writes the tokenizer into a folder).
KINDS: dict[str, tuple[str, Callable]] = {
    "xlnet spiece": ("xlnet", _xlnet_spiece),
    "xlnet json": ("xlnet", _xlnet_json),
    "bert json": ("bert", _wordpiece_json),
    "bert vocab": ("bert", _vocab_alone),
    "albert spiece": ("albert", released.albert),
    "albert json": ("albert", _albert_json),
    "modernbert bpe": ("modernbert", released.byte_level),
}


def config(kind: str, size: int):
    """A small encoder of a model_type with `size` pieces."""
    if kind == "xlnet":
        return XLNetConfig(vocab_size=size, **SIZES, d_head=6)
    makers = {
        "bert": BertConfig,
        "albert": lambda **k: AlbertConfig(**k, embedding_size=8),
        "modernbert": lambda **k: ModernBertConfig(**k, local_window=6),
    }
    return makers[kind](vocab_size=size, **SIZES)


def tokenizer_file(folder: pathlib.Path) -> pathlib.Path:
    """The one file of a tokenizer in a folder."""
    (path,) = [folder / name for name in FILES if (folder / name).exists()]
    return path


def tokenizer(name: str, place: pathlib.Path) -> AnyTokenizer:
    """The tokenizer of a kind, its file written into `place`."""
    KINDS[name][1](place)
    return open_tokenizer(str(tokenizer_file(place)))


def write(name: str, place: pathlib.Path) -> pathlib.Path:
    """A Hugging Face folder of a language model below `place`.

    Args:
      name: of `KINDS`.
      place: an empty folder.
    """
    pieces, folder = place / "pieces", place / "model"
    pieces.mkdir()
    made = config(KINDS[name][0], tokenizer(name, pieces).vocab_size)
    model = heads.build("pretraining", made, {})
    for i, variable in enumerate(model.variables):
        noise = tf.random.stateless_normal(variable.shape, [5, i])
        gain = float("gamma" in variable.name)
        variable.assign(noise * (0.3 - 0.2 * gain) + gain)
    weights = conversion.Weights("pretraining", made, model, {}, [])
    source = checkpoints.Source("native", "", str(place / "none"))
    conversion.write(weights, "hf", str(folder), source)
    for file in pieces.iterdir():
        if file.suffix in (".model", ".json", ".txt") and file.name != "c.txt":
            shutil.copy(file, folder)
    return folder


# --- Heads that others trained -------------------------------------------------

_STORED = pathlib.Path(__file__).parents[1] / "golden" / "hf_heads"
_WORDS = "the river is red near tower and green boat what where who".split()
_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
_TABLE = {
    "xlnet": "transformer.word_embedding.weight",
    "bert": "bert.embeddings.word_embeddings.weight",
    "albert": "albert.embeddings.word_embeddings.weight",
    "modernbert": "model.embeddings.tok_embeddings.weight",
}


def write_head(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A model that others fine-tuned, with a vocabulary.

    Args:
      folder: a new one.
      name: of a folder in tests/golden/hf_heads; its table of vectors gets
        the size of the vocabulary.
    """
    from safetensors.numpy import save_file

    folder.mkdir()
    family = name.split("_")[0]
    config = json.loads((_STORED / name / "config.json").read_text())
    tensors, _ = hf_files.load_tensors(str(_STORED / name))
    if family in ("xlnet", "albert"):
        if family == "xlnet":
            corpus = builds.write_corpus(folder / "corpus.txt")
            spiece = builds.train_spiece(folder, corpus)
        else:
            spiece = released.albert(folder)
        pieces = sentencepiece.SentencePieceProcessor(spiece)
        rows = pieces.get_piece_size()
    else:
        lines = "".join(f"{piece}\n" for piece in _PIECES)
        (folder / "vocab.txt").write_text(lines)
        rows = 23
    table = tensors[_TABLE[family]]
    drawn = np.random.default_rng(0).normal(size=(rows, table.shape[1]))
    tensors[_TABLE[family]] = drawn.astype(np.float32)
    config["vocab_size"] = rows
    if "max_position_embeddings" in config:
        config["max_position_embeddings"] = 48
        for key in tensors:
            if key.endswith("position_embeddings.weight"):
                tensors[key] = np.tile(tensors[key], (3, 1))
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {k: np.ascontiguousarray(v) for k, v in tensors.items()},
        folder / "model.safetensors",
    )
    return folder


# --- Data ---------------------------------------------------------------------

CONTEXT = "the red river e\u0301a fl\u00f3ws by a green tower"
QUESTION = "What tower?"
TAGS = (("the", "O"), ("red", "B-x"), ("caf\u00e9", "I-x"), ("\u0130st", "O"))


def write_data(place: pathlib.Path) -> None:
    """Small data of every task: tables, tags, questions, choices, a ranking."""
    lines = [f"{text}\t{i % 2}\n" for i, text in enumerate(TEXTS * 2)]
    tags = "".join(f"{word}\t{tag}\n" for word, tag in TAGS)
    for split in ("train", "dev", "test"):
        (place / f"{split}.tsv").write_text("text\tlabel\n" + "".join(lines))
        (place / f"{split}.conll").write_text(f"{tags}\n" * 4)
    toy.write(place, documents=30)
    _write_squad(place)
    _write_race(place / "race")
    _write_glue(place / "glue")


def _write_glue(place):
    for split in ("train", "dev"):
        rows = [f"{text}\t{i % 2}\n" for i, text in enumerate(TEXTS * 2)]
        (place / "SST-2").mkdir(parents=True, exist_ok=True)
        text = "sentence\tlabel\n" + "".join(rows)
        (place / "SST-2" / f"{split}.tsv").write_text(text)
        rows = [f"x\t{i % 2}\t\t{text}\n" for i, text in enumerate(TEXTS)]
        (place / "CoLA").mkdir(exist_ok=True)
        (place / "CoLA" / f"{split}.tsv").write_text("".join(rows))


def _write_squad(place):
    answer = {"text": "green tower", "answer_start": CONTEXT.index("green")}
    row = {"id": "1", "question": QUESTION, "answers": [answer]}
    paragraph = {"context": CONTEXT, "qas": [row]}
    data = [{"title": "t", "paragraphs": [paragraph]}]
    value = {"version": "1.1", "data": data}
    (place / "squad.json").write_text(json.dumps(value))


def _write_race(place):
    value = {
        "article": " ".join(TEXTS),
        "questions": ["It is _ .", "Which colour?"],
        "options": [["red", "green", "caf\u00e9", "so"]] * 2,
        "answers": ["A", "C"],
        "id": "1",
    }
    for split in ("train", "dev"):
        for level in ("middle", "high"):
            folder = place / split / level
            folder.mkdir(parents=True)
            (folder / "1.txt").write_text(json.dumps(value))
