"""Different ways to say the same thing give the same numbers."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig, XLNetModel
from modeling.attention import masks
from modeling.checkpoints.names import named_variables

CONFIG = XLNetConfig(
    vocab_size=23,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    mem_len=6,
    init_std=0.3,
)
B, T, M, P = 4, 9, 6, 3


def _case(seed=0, length=T, width=12):
    rng = np.random.default_rng(seed)
    positions = np.stack([rng.permutation(length)[:P] for _ in range(B)])
    is_target = np.zeros((B, length), np.int32)
    np.put_along_axis(is_target, positions, 1, 1)
    return {
        "input_ids": rng.integers(0, 23, (B, length)),
        "segment_ids": rng.integers(0, 3, (B, length)),
        "ranks": np.stack([rng.permutation(length) for _ in range(B)]),
        "is_target": is_target,
        "target_positions": positions.astype(np.int32),
        "memory": tuple(
            rng.normal(size=(B, M, width)).astype(np.float32) for _ in range(2)
        ),
    }


def _assert_equal(a, b, atol=2e-5):
    for name in ("sequence_output", "query_output"):
        x, y = getattr(a, name), getattr(b, name)
        if y is not None:
            np.testing.assert_allclose(x, y, atol=atol, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("attn_type", ["bi", "uni"])
@pytest.mark.parametrize("bi_data", [False, True])
@pytest.mark.parametrize(
    "tpu_shift,clamp_len", [("radix", 7), ("factored", -1)]
)
def test_p_rows_equal_the_full_query_stream(
    attn_type, bi_data, tpu_shift, clamp_len
):
    config = CONFIG.replace(attn_type=attn_type, clamp_len=clamp_len)
    model = XLNetModel(config, query_shift="gather")
    other = XLNetModel(config, query_shift=tpu_shift)
    other.set_weights(model.get_weights())
    case = _case()
    rows = model(**case, bi_data=bi_data)
    _assert_equal(other(**case, bi_data=bi_data), rows)
    positions = case.pop("target_positions")
    full = model(
        **case, query_input=np.ones((B, T)), bi_data=bi_data
    ).query_output
    np.testing.assert_allclose(
        rows.query_output,
        np.take_along_axis(full.numpy(), positions[..., None], 1),
        atol=2e-5,
    )


@pytest.mark.long
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("length, memory", [(16, True), (32, False)])
@pytest.mark.parametrize(
    "tpu_shift,d_model", [("radix", 12), ("factored", 12), ("factored", 144)]
)
@pytest.mark.parametrize("attn_type", ["bi", "uni"])
def test_the_form_for_tpu_is_the_same(
    training, length, memory, tpu_shift, d_model, attn_type
):
    """Tiles of rows or factors, in one or two blocks; values and gradients.

    With D 144 the factors are of 128 waves.
    """
    config = CONFIG.replace(attn_type=attn_type, d_model=d_model)
    case = _case(length=length, width=d_model)
    if not memory:
        del case["memory"]
    if not memory or attn_type == "uni":
        config = config.replace(dropatt=0.0)  # blocks drop with their own seeds
    if tpu_shift == "factored":
        # Dropout of positions falls on other numbers.
        config = config.replace(clamp_len=-1, dropout=0.0)
    results = []
    for shift in ("gather", tpu_shift):
        tf.keras.utils.set_random_seed(4)
        model = XLNetModel(config, query_shift=shift)
        with tf.GradientTape() as tape:
            seed = tf.constant([1, 2]) if training else None
            output = model(**case, training=training, seed=seed)
            loss = tf.reduce_sum(tf.square(output.query_output))
        found = tape.gradient(loss, model.trainable_variables)
        found = [tf.convert_to_tensor(g) for g in found if g is not None]
        results.append([output.sequence_output, output.query_output, *found])
    # Fewer waves make the table to 1e-5; gradients sum that over its columns.
    atol = 5e-4 if d_model == 144 else 2e-4
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=1e-4)


def test_ranks_equal_masks_and_positions_equal_mappings():
    model = XLNetModel(CONFIG)
    case = _case()
    by_ranks = model(**case)
    ranks, is_target = case.pop("ranks"), case.pop("is_target")
    case["perm_mask"] = tf.cast(masks.rank_mask(ranks, is_target), tf.float32)
    _assert_equal(model(**case), by_ranks, 0)
    positions = case.pop("target_positions")
    mapping = np.eye(T, dtype=np.float32)[positions]
    by_mapping = model(**case, target_mapping=mapping)
    _assert_equal(by_mapping, by_ranks, 0)
    # `is_target` may be left to the mapping.
    del case["perm_mask"]
    _assert_equal(
        model(**case, ranks=ranks, target_mapping=mapping), by_ranks, 0
    )


def test_what_a_mapping_leaves_out_is_context():
    """Context tokens share a rank and see each other; targets do not."""
    model = XLNetModel(CONFIG)
    case = _case()
    is_target = case.pop("is_target")
    case["ranks"] = np.where(is_target, case["ranks"], -1)
    by_ranks = model(**case, is_target=is_target)
    mapping = np.eye(T, dtype=np.float32)[case.pop("target_positions")]
    _assert_equal(model(**case, target_mapping=mapping), by_ranks, 0)
    every = model(**case, is_target=np.ones_like(is_target))
    difference = every.sequence_output - by_ranks.sequence_output
    assert np.abs(difference).max() > 0.01


def test_zero_rows_of_a_mapping_do_not_matter():
    model = XLNetModel(CONFIG)
    case = _case()
    rows = model(**case)
    mapping = np.eye(T, dtype=np.float32)[case.pop("target_positions")]
    mapping = np.concatenate([mapping, np.zeros((B, 2, T), np.float32)], 1)
    more = model(**case, target_mapping=mapping).query_output
    np.testing.assert_allclose(more[:, :P], rows.query_output, atol=1e-6)


def test_backward_data_is_forward_data_reversed():
    """The backward half on a sequence = the forward half on its mirror."""
    model = XLNetModel(CONFIG)
    ids = _case()["input_ids"]
    mirrored = np.concatenate([ids[:2], ids[:2, ::-1]])
    both = model(mirrored, bi_data=True).sequence_output
    np.testing.assert_allclose(both[2:, ::-1], both[:2], atol=2e-5)


def test_segments_with_memory_equal_one_causal_pass():
    config = CONFIG.replace(attn_type="uni", mem_len=16)
    model = XLNetModel(config)
    ids = np.random.default_rng(0).integers(0, 23, (2, 15))
    whole = model(ids).sequence_output
    for cuts in ((5, 10), (4, 5, 12)):
        memory, parts = None, []
        for part in np.split(ids, cuts, axis=1):
            output = model(part, memory=memory)
            memory = output.new_memory
            parts.append(output.sequence_output)
        np.testing.assert_allclose(np.concatenate(parts, 1), whole, atol=2e-5)


def test_shared_biases_equal_equal_ones():
    tied = XLNetModel(CONFIG.replace(untie_r=False))
    untied = XLNetModel(CONFIG)
    values = named_variables(tied)
    for name, variable in named_variables(untied).items():
        shared = f"model/transformer/{name.split('/')[-1]}"
        variable.assign(values.get(name, values.get(shared)))
    assert "r_w_bias" in tied.variable_paths()
    case = _case()
    _assert_equal(tied(**case), untied(**case), 1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "recompute,untie_r,mode",
    [
        pytest.param("layer", False, "eager"),
        pytest.param("layer", True, "eager"),
        pytest.param("layer", True, "graph", marks=pytest.mark.slow),
        pytest.param("layer", False, "jit", marks=pytest.mark.slow),
        pytest.param("layer_barrier", True, "jit", marks=pytest.mark.slow),
        pytest.param("layer_barrier", False, "jit", marks=pytest.mark.slow),
        pytest.param("order", True, "jit", marks=pytest.mark.slow),
        pytest.param("order", False, "jit", marks=pytest.mark.slow),
    ],
)
def test_recompute_changes_no_gradient(recompute, untie_r, mode):
    config = CONFIG.replace(untie_r=untie_r)
    plain = XLNetModel(config)
    model = XLNetModel(config, recompute=recompute)
    model.set_weights(plain.get_weights())
    case = {
        k: v if k == "memory" else tf.constant(v, tf.int32)
        for k, v in _case().items()
    }
    gradients = []
    for one in (plain, model):

        def run(one=one):
            with tf.GradientTape() as tape:
                output = one(**case, training=True, seed=tf.constant([1, 2]))
                loss = tf.reduce_sum(tf.square(output.query_output))
            found = tape.gradient(loss, one.trainable_variables)
            return [tf.convert_to_tensor(g) for g in found if g is not None]

        if mode != "eager":
            run = tf.function(run, jit_compile=mode == "jit", autograph=False)
        gradients.append(run())
    assert len(gradients[0]) == len(gradients[1])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-4, rtol=1e-4)
