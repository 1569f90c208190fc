"""Toy language models that are asked."""

import pytest
import tensorflow as tf

from common.contract.symbols import SymbolIds
from data.text.lm_vocabulary import SymbolVocabulary
from data.text.opening import open_tokenizer
from modeling import PretrainingModel, XLNetConfig
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.causal import CausalLM
from serving.generation.language_model import LanguageModel
from tests.helpers import released

# Released tables may have more rows than the vocabulary has pieces.
HIDDEN_TEXT = "The <mask> river <mask>ing."
MASKED_SIZES = dict(
    vocab_size=len(released.PIECES) + 3,
    d_model=8,
    n_layer=2,
    n_head=2,
    d_inner=12,
    max_position_embeddings=24,
)
MASKED = [
    BertConfig(**MASKED_SIZES),
    AlbertConfig(**MASKED_SIZES, embedding_size=4),
    ModernBertConfig(**MASKED_SIZES, local_window=6),
]
WORDS = ["<S>", "a", "b", "<UNK>"]


def asked(line_end="marks", words=WORDS, **changes):
    values = dict(
        vocab_size=len(words),
        d_model=8,
        n_layer=2,
        n_head=2,
        d_head=3,
        d_inner=6,
        mem_len=5,
        init_std=0.5,
    )
    model = CausalLanguageModel(TransformerXLConfig(**(values | changes)))
    return CausalLM(model, SymbolVocabulary("word", words, line_end), "v.json")


def make_model(**overrides) -> PretrainingModel:
    tf.keras.utils.set_random_seed(11)
    config = {
        "vocab_size": 1000,
        "d_model": 20,
        "n_layer": 2,
        "n_head": 2,
        "d_head": 6,
        "d_inner": 28,
        "init_std": 0.3,
    }
    return PretrainingModel(XLNetConfig(**config | overrides))


class Pieces:
    """A vocabulary of single letters behind the special symbols."""

    symbols = SymbolIds()

    def encode(self, text):
        return [9 + ord(c) - ord("a") for c in text]

    def encode_with_offsets(self, text):
        places = list(range(len(text)))
        return self.encode(text), places, [i + 1 for i in places]

    def id_to_piece(self, index):
        return chr(index - 9 + ord("a"))

    def decode(self, ids):
        return "".join(self.id_to_piece(int(i)) for i in ids)

    def tokenize(self, texts):
        return tf.ragged.constant(
            [self.encode(t.decode()) for t in texts.numpy()], tf.int32
        )


def released_tokenizer(tmp_path_factory):
    """A `vocab.txt` as BERT's releases have it, opened."""
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("released")
    return open_tokenizer(released.wordpiece_folder(folder))


def masked_lm(config, tokenizer):
    model = PretrainingModel(config)
    for i, variable in enumerate(model.variables):
        noise = tf.random.stateless_normal(variable.shape, [2, i])
        variable.assign(noise + float("gamma" in variable.name))
    return LanguageModel(model, tokenizer)


def case_of(cases, name):
    """The weights of `steps.npz` are those of the untied cases."""
    for case in cases.values():
        s = case["settings"]
        same, clamp = "same_length" in name, "clamp" in name
        fits = s["same_length"] == same and (s["clamp_len"] > 0) == clamp
        if s["untie_r"] and not s["cutoffs"] and fits:
            return case
    raise AssertionError(name)
