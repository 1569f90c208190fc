"""Tiling from the middle: the golden arrays, layers, and a whole model."""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import PretrainingModel
from modeling.checkpoints import conversion, tiling
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders import registry
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig

PARTS = {"qkv": 3, "glu": 2}
SMALL = dict(vocab_size=13, d_model=8, n_layer=3, n_head=2, d_inner=6)
LARGE = dict(vocab_size=13, d_model=12, n_layer=5, n_head=3, d_inner=10)


def test_the_golden_arrays(golden):
    path = golden / "encoders" / "tiling.npz"
    with np.load(path, allow_pickle=False) as f:
        arrays = {key: f[key] for key in f.files}
    cases = {key.split("/")[0] for key in arrays}
    assert cases
    for case in cases:
        small, large = arrays[f"{case}/small"], arrays[f"{case}/large"]
        # Theirs are [out, in], with the parts along the first axis.
        made = tiling.tile_parts(small.T, large.T.shape, PARTS.get(case, 1)).T
        np.testing.assert_array_equal(made, large, err_msg=case)


def test_the_golden_layers(golden):
    path = golden / "encoders" / "training.json"
    mappings = json.loads(path.read_text())["layer_mapping"]
    assert mappings
    for key, wanted in mappings.items():
        old, new = map(int, key.split("->"))
        assert tiling.layer_mapping(old, new) == wanted


def test_every_new_layer_begins_as_an_old_one():
    assert tiling.layer_mapping(1, 3) == [0, 0, 0]
    assert tiling.layer_mapping(2, 4) == [0, 0, 1, 1]
    found = tiling.layer_mapping(12, 24)
    assert found == sorted(found)
    assert (found[0], found[-1], set(found)) == (0, 11, set(range(12)))


@pytest.mark.parametrize("old, new", [(1, 3), (2, 4)])
def test_no_layer_of_a_deeper_model_stays_random(old, new):
    small = PretrainingModel(BertConfig(**(SMALL | {"n_layer": old})))
    large = PretrainingModel(BertConfig(**(SMALL | {"n_layer": new})))
    arrays = {n: v.numpy() + 7 for n, v in named_variables(small).items()}
    assert not tiling.grow(arrays, small.config, large)
    for name, variable in named_variables(large).items():
        assert variable.numpy().min() > 3, name


def test_a_missing_layer_is_named():
    small = PretrainingModel(BertConfig(**SMALL))
    large = PretrainingModel(BertConfig(**LARGE))
    arrays = {
        n: v.numpy()
        for n, v in named_variables(small).items()
        if "bert/layer_2/" not in n
    }
    with pytest.raises(UserError, match="layer_3/.*begins as.*layer_2/"):
        tiling.grow(arrays, small.config, large)


@pytest.mark.long
@pytest.mark.parametrize(
    "small, large",
    [
        (BertConfig(**SMALL), BertConfig(**LARGE)),
        (
            AlbertConfig(**SMALL, embedding_size=4),
            AlbertConfig(**LARGE, embedding_size=6),
        ),
        (ModernBertConfig(**SMALL), ModernBertConfig(**LARGE)),
    ],
    ids=lambda c: c.model_type,
)
def test_a_model_grows_by_the_command(small, large, tmp_path):
    model = PretrainingModel(small)
    for i, variable in enumerate(model.variables):
        values = tf.random.stateless_normal(variable.shape, [1, i])
        variable.assign(values)
    nowhere = checkpoints.Source("native", "", str(tmp_path))
    weights = conversion.Weights("pretraining", small, model, {}, [])
    conversion.write(weights, "native", str(tmp_path / "small"), nowhere)
    (tmp_path / "wanted").mkdir()
    path = registry.write_config(str(tmp_path / "wanted"), large)
    conversion.convert(
        ConvertOptions(
            "native",
            "native",
            str(tmp_path / "small"),
            str(tmp_path / "large"),
            grow_to=path,
        )
    )
    assert checkpoints.find_config(str(tmp_path / "large")) == large
    grown = PretrainingModel(large)
    assert not checkpoints.restore(grown, str(tmp_path / "large")).fresh
    before, after = named_variables(model), named_variables(grown)
    scope = model.encoder.scope
    old, new = f"{scope}layer_2/", f"{scope}layer_4/"  # round(4 * 3 / 5)
    if small.model_type == "albert":
        old = new = f"{scope}group_0/inner_0/"
    name = "ff/layer_2/kernel"
    wanted = tiling.center_tile(before[old + name].numpy(), (10, 12))
    np.testing.assert_array_equal(after[new + name], wanted)
    # An axis per head is part of a matrix, queries apart from keys.
    if small.model_type == "modernbert":
        qkv = before[old + "attention/qkv/kernel"].numpy()  # [D, 3, N, H]
        keys = tiling.center_tile(qkv[:, 1].reshape(8, 8), (12, 12))
        made = after[new + "attention/qkv/kernel"].numpy()
        np.testing.assert_array_equal(made[:, 1].reshape(12, 12), keys)
        gated = before[old + "ff/layer_1/kernel"].numpy()
        half = tiling.center_tile(gated[:, 6:], (12, 10))
        made = after[new + "ff/layer_1/kernel"].numpy()
        np.testing.assert_array_equal(made[:, 10:], half)
    else:
        bias = before[old + "attention/k/bias"].numpy().reshape(-1)
        made = after[new + "attention/k/bias"].numpy().reshape(-1)
        wanted = tiling.center_tile(bias, (12,))
        np.testing.assert_array_equal(made, wanted)


def test_another_vocabulary_or_kind_is_refused():
    model = PretrainingModel(BertConfig(**SMALL))
    arrays = {n: v.numpy() for n, v in named_variables(model).items()}
    other = PretrainingModel(BertConfig(**(LARGE | {"vocab_size": 14})))
    with pytest.raises(UserError, match="keeps vocabulary"):
        tiling.grow(arrays, model.config, other)
    other = PretrainingModel(ModernBertConfig(**LARGE))
    with pytest.raises(UserError, match="keeps the model_type"):
        tiling.grow(arrays, model.config, other)


@pytest.mark.parametrize("size", ["d_inner", "d_model", "n_layer"])
def test_a_smaller_model_is_refused(size):
    """Its weights would be those of the middle, and no model at all."""
    small = BertConfig(**LARGE)
    sizes = LARGE | {size: SMALL[size], "n_head": 1}
    other = PretrainingModel(BertConfig(**sizes))
    with pytest.raises(UserError, match=f"wanted `{size}` of {LARGE[size]}"):
        tiling.grow({}, small, other)
