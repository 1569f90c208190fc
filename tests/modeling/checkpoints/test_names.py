"""Every variable has one name, whatever model holds it."""

import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import ClassificationModel, PretrainingModel, XLNetConfig
from modeling.checkpoints import names
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.registry import build_encoder

XLNET = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)
BERT = BertConfig(
    vocab_size=11,
    d_model=6,
    n_layer=2,
    n_head=3,
    d_inner=10,
    max_position_embeddings=9,
)
START = "model/transformer/mask_emb/mask_emb"


def test_a_task_models_encoder_has_the_names_that_it_has_alone():
    model = ClassificationModel(XLNET, 3)
    assert names.encoder_of(model) is model.encoder
    assert names.encoder_of(model.encoder) is model.encoder
    whole = names.named_variables(model)
    alone = names.named_variables(model.encoder)
    assert alone.keys() < whole.keys()
    assert all(whole[name] is value for name, value in alone.items())
    heads = {n for n in whole.keys() - alone.keys()}
    assert "model/classification/logit/kernel" in heads
    assert not any(name.startswith("model/transformer/") for name in heads)
    # A path leads to the variable from the model that was asked.
    paths = names.variable_paths(model)
    assert paths[START] == "encoder/embeddings/mask_emb"
    assert names.variable_paths(model.encoder)[START] == "embeddings/mask_emb"


@pytest.mark.parametrize("config", [XLNET, BERT], ids=lambda c: c.model_type)
def test_layers_have_their_numbers(config):
    """Names of another layer lead to its own variables."""
    model = build_encoder(config)
    for i, variable in enumerate(model.variables):
        variable.assign(tf.fill(variable.shape, float(i)))
    found = names.named_variables(model)
    assert len(found) == len(model.variables)
    first = {n: v for n, v in found.items() if "layer_0/" in n}
    assert len(first) > 8
    for name, variable in first.items():
        other = found[name.replace("layer_0/", "layer_1/")]
        assert other.shape == variable.shape
        assert np.max(other) != np.max(variable)


def test_only_models_without_a_language_model_may_lack_its_start():
    for model, wanted in (
        (PretrainingModel(XLNET), []),
        (ClassificationModel(XLNET, 2), [START]),
        (build_encoder(XLNET), [START]),
        (ClassificationModel(BERT, 2), []),
    ):
        assert names.absent_as_zeros(model) == wanted
    assert START in names.variable_paths(build_encoder(XLNET))


def planted(paths, head=None, **attributes):
    """A task model of these paths below its encoder, with a variable `w`."""
    w, b = tf.Variable([1.0], name="w"), tf.Variable([2.0, 3.0], name="b")
    encoder = types.SimpleNamespace(
        scope="own/",
        variable_paths=lambda: paths,
        layers=[{"w": w}, {"w": b}],
        w=w,
    )
    return types.SimpleNamespace(
        encoder=encoder,
        head_variable_paths=lambda: head or {},
        variables=[w, b],
        bias=b,
        **attributes,
    )


def test_paths_go_through_lists_and_dictionaries():
    model = planted({"a/w": "layers/0/w", "b/w": "layers/1/w"})
    found = names.named_variables(model)
    assert {name: v.name for name, v in found.items()} == {
        "own/a/w": "w:0",
        "own/b/w": "b:0",
    }


def test_a_variable_without_a_name_is_an_error():
    with pytest.raises(ValueError, match=r"name: \['b:0'\]; 1 names for 2 var"):
        names.named_variables(planted({"w": "w"}))
    whole = planted({"w": "w"}, {"head/bias": "bias"})
    assert set(names.named_variables(whole)) == {"own/w", "head/bias"}


def test_a_name_of_what_is_no_variable_of_the_model_is_an_error():
    model = planted(
        {"w": "w"},
        {"head/bias": "bias", "head/more": "more"},
        more=tf.Variable([0.0]),
    )
    with pytest.raises(ValueError, match=r"name: \[\]; 3 names for 2 varia"):
        names.named_variables(model)
