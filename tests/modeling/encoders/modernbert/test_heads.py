"""The layer before decoder and classifier, and the summary that begins with it."""

import numpy as np
import pytest

from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.modernbert.heads import (
    SCOPE,
    ModernBertLanguageModelHead,
    ModernBertSummary,
    PredictionHead,
)

CONFIG = ModernBertConfig(9, 6, 1, 3, 8, head_activation="relu")
HIDDEN = np.random.default_rng(1).normal(size=(2, 3, 6)).astype(np.float32)


def filled(layer):
    layer.build([None, None, 6])
    rng = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return layer


def test_the_head_has_no_biases():
    head = filled(PredictionHead(CONFIG))
    x = np.maximum(HIDDEN @ head.dense.kernel.numpy(), 0)
    centred = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(-1, keepdims=True) + CONFIG.norm_eps)
    wanted = centred / scale * head.norm.gamma.numpy()
    np.testing.assert_allclose(head(HIDDEN), wanted, atol=1e-4)
    assert len(head.trainable_variables) == 2


def test_decoder_and_classifier_share_its_names():
    decoder = filled(ModernBertLanguageModelHead(CONFIG))
    summary = filled(ModernBertSummary(CONFIG))
    names = {"transform/kernel", "LayerNorm/gamma"}
    assert names < set(decoder.variable_paths())
    assert names == set(summary.variable_paths())
    assert summary.scope == SCOPE
    # A classifier begins with the language model's.
    elsewhere = summary.paths_elsewhere()
    assert elsewhere["lm_head/head/dense/kernel"] == (
        f"{SCOPE}/transform/kernel"
    )
    bare = ModernBertSummary(CONFIG, use_proj=False)
    assert bare.paths_elsewhere() == {} and bare.variable_paths() == {}


@pytest.mark.parametrize(
    "pooling, asked, wanted",
    [("cls", None, "first"), ("mean", None, "mean"), ("mean", "last", "last")],
)
def test_the_configuration_tells_how_it_pools(pooling, asked, wanted):
    config = CONFIG.replace(pooling=pooling)
    assert ModernBertSummary(config, asked).summary_type == wanted
