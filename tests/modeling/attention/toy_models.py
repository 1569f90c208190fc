"""Toy language models with every encoding of positions."""

import tensorflow as tf

from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel


def toy(encoding, query_shift="auto", **changes):
    values = dict(
        vocab_size=19,
        n_layer=2,
        d_model=10,
        n_head=3,
        d_head=4,
        d_inner=14,
        mem_len=5,
        dropout=0.0,
        init_std=0.4,
        encoding=encoding,
        max_positions=7,
    )
    tf.keras.utils.set_random_seed(5)
    config = TransformerXLConfig(**(values | changes))
    return CausalLanguageModel(config, query_shift=query_shift)


def ids_of(*shape):
    return tf.random.stateless_uniform(shape, [7, 8], 0, 19, tf.int32)
