"""Heads that begin with a neighbour: which position each one scores highest."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints.names import named_variables
from modeling.encoders.bert.backbone import BertModel
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.bert.nearest_attention import attend_to_nearest

SIZES = {
    "vocab_size": 30,
    "d_model": 96,
    "n_layer": 2,
    "n_head": 6,
    "d_inner": 20,
    "max_position_embeddings": 48,
    "init_std": 0.05,
}
CONFIGS = {
    "bert": BertConfig(**SIZES),
    "albert": AlbertConfig(**SIZES, embedding_size=40),
}


def model_of(kind):
    tf.keras.utils.set_random_seed(5)
    return BertModel(CONFIGS[kind])


@pytest.mark.parametrize("kind", CONFIGS)
def test_half_of_the_heads_score_their_neighbour_highest(kind):
    model = model_of(kind)
    attend_to_nearest(model)
    x = model.embeddings.position_table  # [T, E]
    if model.mapping is not None:
        x = x @ model.mapping.kernel  # [T, D]
    for layer in model.applied_layers():
        q, k = (
            tf.einsum("td,dnh->nth", x, layer.attention.kernels[name])
            for name in "qk"
        )
        found = tf.matmul(q, k, transpose_b=True).numpy().argmax(-1)  # [N, T]
        rows = np.arange(3, 45)
        for head, distance in enumerate((1, -1, 2)):
            np.testing.assert_array_equal(found[head, rows], rows - distance)


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_other_heads_stay(kind):
    plain, nearest = model_of(kind), model_of(kind)
    attend_to_nearest(nearest)
    for a, b in zip(
        plain.applied_layers(), nearest.applied_layers(), strict=True
    ):
        for name in "qk":
            old, new = (x.attention.kernels[name].numpy() for x in (a, b))
            np.testing.assert_array_equal(old[:, 3:], new[:, 3:])
            assert (old[:, :3] != new[:, :3]).all()


@pytest.mark.parametrize("kind", CONFIGS)
def test_positions_keep_their_deviation_and_the_rest_stays(kind):
    plain, nearest = model_of(kind), model_of(kind)
    attend_to_nearest(nearest)
    table = nearest.embeddings.position_table.numpy()
    assert abs((table**2).mean() ** 0.5 - 0.05) < 1e-6
    changed = ("position_embedding", "/q/kernel", "/k/kernel")
    for name, value in named_variables(plain).items():
        equal = np.array_equal(value, named_variables(nearest)[name])
        assert equal != any(part in name for part in changed), name


@pytest.mark.parametrize(
    "kind, change, flag",
    [
        ("bert", {"d_model": 9, "n_head": 3}, "d_model, found 9"),
        ("albert", {"embedding_size": 5}, "embedding_size, found 5"),
    ],
)
def test_an_odd_width_has_no_halves(kind, change, flag):
    model = BertModel(CONFIGS[kind].replace(**change))
    with pytest.raises(UserError, match=f"wanted an even --{flag}"):
        attend_to_nearest(model)
