"""Toy language models that are asked."""

from data.text.lm_vocabulary import SymbolVocabulary
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.causal import CausalLM

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
