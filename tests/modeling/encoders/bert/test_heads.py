"""The layer before the decoder: from D to E, activated and normalised."""

import numpy as np
import pytest

from modeling.encoders.bert.config import AlbertConfig
from modeling.encoders.bert.heads import BertLanguageModelHead

CONFIG = AlbertConfig(9, 6, 1, 3, 8, embedding_size=4, ff_activation="relu")


@pytest.fixture
def head():
    made = BertLanguageModelHead(CONFIG)
    made.build(None)
    rng = np.random.default_rng(0)
    for variable in made.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return made


def test_a_vector_of_the_tables_width(head):
    hidden = np.random.default_rng(1).normal(size=(2, 3, 6)).astype(np.float32)
    x = np.maximum(hidden @ head.dense.kernel.numpy() + head.dense.bias, 0)
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt(
        (centred**2).mean(-1, keepdims=True) + CONFIG.layer_norm_eps
    )
    wanted = centred / scale * head.norm.gamma + head.norm.beta
    found = head.transform(hidden)
    assert found.shape == [2, 3, 4]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    table = np.random.default_rng(2).normal(size=(9, 4)).astype(np.float32)
    logits = head(hidden, table)
    np.testing.assert_allclose(
        logits, wanted @ table.T + head.bias.numpy(), atol=1e-3
    )


def test_names_of_its_variables(head):
    assert set(head.variable_paths()) == {
        "bias",
        "transform/kernel",
        "transform/bias",
        "LayerNorm/gamma",
        "LayerNorm/beta",
    }
