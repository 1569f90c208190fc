"""A small Transformer-XL with clusters."""

import tensorflow as tf

from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel


def sizes(n_layer, d_model, n_head, d_head, d_inner):
    return dict(
        n_layer=n_layer,
        d_model=d_model,
        n_head=n_head,
        d_head=d_head,
        d_inner=d_inner,
    )


def toy(query_shift="auto", **changes):
    values = dict(
        vocab_size=31,
        cutoffs=(7, 18),
        div_val=2,
        d_embed=12,
        untie_r=True,
        mem_len=5,
        dropout=0.0,
        init_std=0.4,
        proj_init_std=0.4,
    )
    values |= sizes(2, 10, 3, 4, 14)
    tf.keras.utils.set_random_seed(3)
    config = TransformerXLConfig(**(values | changes))
    return CausalLanguageModel(config, query_shift=query_shift)
