"""ModernBERT's sizes, file, long rows and packed ones."""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import PretrainingModel
from modeling.checkpoints.names import named_variables
from modeling.encoders import registry
from modeling.encoders.modernbert.config import ModernBertConfig
from training.optim.variable_groups import build_groups
from training.run_options import OptimizerOptions

TINY = ModernBertConfig(
    vocab_size=23,
    d_model=8,
    n_layer=4,
    n_head=2,
    d_inner=6,
    local_window=4,
    max_position_embeddings=64,
)


@pytest.mark.parametrize(
    "config, encoder, whole, millions",
    [
        (ModernBertConfig.base(), 149_014_272, 149_655_232, (149.0, 149.7)),
        (ModernBertConfig.large(), 394_781_696, 395_881_664, (394.8, 395.9)),
    ],
)
def test_parameters_of_the_recipes(config, encoder, whole, millions):
    with tf.Graph().as_default():
        model = PretrainingModel(config)
        sizes = {
            name: variable.shape.num_elements()
            for name, variable in named_variables(model).items()
        }
    of_the_encoder = [n for n in sizes if n.startswith(model.encoder.scope)]
    assert sum(sizes[n] for n in of_the_encoder) == encoder
    assert sum(sizes.values()) == whole
    rounded = (round(encoder / 1e6, 1), round(whole / 1e6, 1))
    assert rounded == millions
    assert [n for n in sizes if n.endswith("/bias")] == ["model/lm_loss/bias"]
    groups = build_groups(sizes, config.n_layer, OptimizerOptions())
    assert {g.layer for g in groups.values()} >= {-1, None, config.n_layer - 1}
    assert not groups["model/modernbert/final/LayerNorm/gamma"].decayed


def _model():
    model = PretrainingModel(TINY)
    for i, variable in enumerate(model.variables):
        if variable.shape.rank > 1:
            values = tf.random.stateless_normal(variable.shape, [3, i])
            variable.assign(0.3 * values)
    return model


def test_long_rows_take_the_blocks_and_equal_packed_ones():
    """Blocks, several documents in a row, and padding: the same numbers."""
    model = _model().encoder
    rng = np.random.default_rng(5)
    lengths = (9, 13, 6)
    texts = [rng.integers(0, 23, n) for n in lengths]
    row = np.concatenate([*texts, [0, 0]])[np.newaxis]
    documents = np.repeat([1, 2, 3, 0], [*lengths, 2])[np.newaxis]
    positions = np.concatenate(
        [np.arange(n) for n in (*lengths, 2)], dtype=np.int32
    )[np.newaxis]
    packed = model(
        row,
        input_mask=(documents > 0).astype(np.int32),
        positions=positions,
        documents=documents,
    ).sequence_output[0]
    assert model.surroundings(row)[1].mask.blocks > 0
    start = 0
    for text in texts:
        alone = model(text[np.newaxis]).sequence_output[0]
        own = packed[start : start + len(text)]
        np.testing.assert_allclose(own, alone, atol=2e-5)
        start += len(text)


def test_local_layers_see_so_far_and_no_farther():
    config = TINY.replace(n_layer=2, global_every=2)
    model = PretrainingModel(config).encoder
    model.blocks[0].o_kernel.assign(tf.zeros_like(model.blocks[0].o_kernel))
    ids = np.arange(12)[np.newaxis] % 23
    before = model(ids).sequence_output
    ids[0, 5] = 20
    changed = np.abs(model(ids).sequence_output - before).max(-1)[0] > 0
    assert np.flatnonzero(changed).tolist() == [3, 4, 5, 6, 7]


def test_dropout_and_recomputation():
    config = TINY.replace(dropout=0.1, dropatt=0.2, mlp_dropout=0.3)
    plain = PretrainingModel(config)
    again = PretrainingModel(config, recompute="layer")
    for a, b in zip(plain.variables, again.variables, strict=True):
        b.assign(a)
    ids, seed = np.arange(20).reshape([2, 10]), tf.constant([3, 4])
    results = []
    for model in (plain, again):
        kernel = model.encoder.blocks[1].kernel_1
        with tf.GradientTape() as tape:
            out = model(ids, training=True, seed=seed).sequence_output
            loss = tf.reduce_sum(out**3)
        results.append((out, tape.gradient(loss, kernel)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    assert np.abs(results[0][0] - plain(ids).sequence_output).max() > 0.01


def test_the_file_reads_back(tmp_path):
    changed = TINY.replace(
        local_theta=500.0, pooling="mean", extra={"sep_token_id": 2}
    )
    path = registry.write_config(str(tmp_path), changed)
    assert registry.read_config(path) == changed
    assert registry.config_from_dict(changed.to_dict()) == changed
    # More layers of a configuration that was read from a file.
    assert registry.read_config(path).replace(n_layer=6).n_layer == 6
    fields = json.loads(changed.to_json())
    del fields["global_attn_every_n_layers"]
    assert registry.config_from_dict(fields) == changed


@pytest.mark.parametrize(
    "change, message",
    [
        ({"attention_bias": True}, "only the decoder has a bias"),
        ({"hidden_size": 6}, "rotary halves"),
        ({"layer_types": ["full_attention"] * 4}, "global every 3"),
        ({"local_attention": 1}, ">= 2"),
        ({"classifier_pooling": "max"}, "pooling"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "yarn",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "`rope_scaling` must be null",
        ),
        ({"rope_scaling": {"factor": 2.0}}, "`rope_scaling` must be null"),
        (
            {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}},
            "object for each of",
        ),
        ({"rope_parameters": {"rope_theta": 1e4}}, "object for each of"),
        ({"rope_parameters": {"full_attention": 1e4}}, "object for each of"),
    ],
)
def test_a_wrong_file_is_one_line(change, message):
    fields = json.loads(TINY.to_json()) | change
    with pytest.raises(UserError, match=message):
        registry.config_from_dict(fields)


@pytest.mark.parametrize("scaling", [None, {"rope_type": "default"}])
def test_positions_that_are_not_scaled_are_read(scaling):
    fields = json.loads(TINY.to_json()) | {"rope_scaling": scaling}
    theta = {"rope_theta": 77.0}
    fields["rope_parameters"] = {"full_attention": theta}
    del fields["global_rope_theta"]
    assert registry.config_from_dict(fields).global_theta == 77.0
