"""One vector of a row by every pooling, computed apart, on both layouts."""

import numpy as np
import pytest

from modeling import XLNetConfig
from modeling.encoders.bert.config import BertConfig
from modeling.heads.embedding import EmbeddingModel

SIZES = dict(vocab_size=29, d_model=6, n_layer=1, n_head=3, d_inner=10)
CONFIGS = {
    "cls_last": XLNetConfig(**SIZES, d_head=4),
    "cls_first": BertConfig(**SIZES),
}
IDS = np.random.default_rng(0).integers(3, 29, (3, 6))
MASK = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]])


def row_of(states, pooling, layout, symbols):
    """Of the states of a row's real tokens."""
    cls = states[0] if layout == "cls_first" else states[-1]
    pieces = states[1:-1] if layout == "cls_first" else states[:-2]
    if symbols:
        pieces = states
    if pooling == "cls" or not len(pieces):
        return cls
    return {
        "mean": lambda: pieces.mean(0),
        "max": lambda: pieces.max(0),
        "last": lambda: pieces[-1],
    }[pooling]()


@pytest.mark.long
@pytest.mark.parametrize("symbols", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
@pytest.mark.parametrize("layout", CONFIGS)
def test_every_pooling_of_every_layout(layout, pooling, symbols):
    model = EmbeddingModel(CONFIGS[layout], pooling, with_symbols=symbols)
    mask = MASK if layout == "cls_last" else MASK[:, ::-1]
    found = model(IDS, input_mask=mask).numpy()
    states = model.encoder(IDS, input_mask=mask).sequence_output.numpy()
    for row in range(3):
        real = states[row][mask[row] > 0]
        wanted = row_of(real, pooling, layout, symbols)
        np.testing.assert_allclose(found[row], wanted, atol=1e-5)


def test_a_normalised_vector_has_the_length_one():
    plain = EmbeddingModel(CONFIGS["cls_last"])
    unit = EmbeddingModel(CONFIGS["cls_last"], normalize=True)
    unit.set_weights(plain.get_weights())
    vectors = plain(IDS).numpy()
    sizes = np.linalg.norm(vectors, axis=-1, keepdims=True)
    np.testing.assert_allclose(unit(IDS), vectors / sizes, atol=1e-6)
    with pytest.raises(ValueError, match="`pooling` must be one of"):
        EmbeddingModel(CONFIGS["cls_last"], "median")


def test_the_first_numbers_of_a_vector():
    whole = EmbeddingModel(CONFIGS["cls_last"], normalize=True)
    part = EmbeddingModel(CONFIGS["cls_last"], normalize=True, dimensions=4)
    part.set_weights(whole.get_weights())
    np.testing.assert_array_equal(part(IDS), whole(IDS)[:, :4])
