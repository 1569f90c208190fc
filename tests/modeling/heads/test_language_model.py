"""Pretraining numbers of the original: forward, losses, memory, gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, XLNetConfig, losses
from modeling.encoders.registry import new_config
from modeling.ops import fused as fusion
from tests.modeling.golden import golden_util

# file, segments, target mapping, bi_data, memory fed to the first segment
CASES = [
    ("pretrain_tm", 3, True, True, True),
    ("pretrain_notm", 3, False, True, True),
    ("pretrain_nomems", 1, True, True, False),
    ("pretrain_tm_unidata", 2, True, False, True),
]


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize("name,segments,mapped,bi_data,fed", CASES)
@pytest.mark.parametrize(
    "query_shift",
    ["gather", "factored", pytest.param("radix", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "mode",
    [
        "eager",
        pytest.param("fused", marks=pytest.mark.slow),
        pytest.param("jit", marks=pytest.mark.slow),
    ],
)
def test_pretraining(
    golden, name, segments, mapped, bi_data, fed, query_shift, mode, monkeypatch
):
    if query_shift == "radix" and not mapped:
        pytest.skip("no P rows to shift")
    data = golden_util.load(golden, name)
    config = golden_util.config(golden, mem_len=6, reuse_len=4)
    model = PretrainingModel(config, query_shift=query_shift)
    golden_util.assign(model, golden, "xlnet_tiny.ckpt")
    memory = None
    if fed:
        memory = tuple(
            tf.transpose(data[f"mems_in_{i}"], [1, 0, 2]) for i in range(3)
        )

    def run(memory, batch):
        output = model(memory=memory, bi_data=bi_data, **batch)
        return output, model.lm_logits(output.query_output)

    if mode != "eager":
        # "fused": a graph whose fused kernels are all compiled, as at full size.
        monkeypatch.setattr(fusion, "MIN_ELEMENTS", 1)
        run = tf.function(run, jit_compile=mode == "jit", autograph=False)
    for s in range(1, segments + 1):
        batch, target, weight = _batch(data, s, mapped)
        with tf.GradientTape() as tape:
            output, logits = run(memory, batch)
            loss = losses.token_losses(logits, target)
            total, count, _ = losses.weighted_sums(logits, target, weight)
            total /= count
        golden_util.assert_close(
            tf.transpose(output.query_output, [1, 0, 2]),
            data[f"seg{s}/hidden"],
            "hidden",
        )
        golden_util.assert_close(tf.transpose(loss), data[f"seg{s}/lm_loss"])
        golden_util.assert_close(total, data[f"seg{s}/total_loss"])
        memory = output.new_memory
        for i, new in enumerate(memory):
            golden_util.assert_close(
                tf.transpose(new, [1, 0, 2]), data[f"seg{s}/new_mems_{i}"]
            )
    golden_util.assert_gradients(
        golden_util.stacked_gradients(tape, total, model),
        golden_util.gradients_of(data, "grad"),
    )


def _batch(data, s, mapped):
    values = golden_util.gradients_of(data, f"seg{s}/in")
    batch = {
        "input_ids": values["input_k"],
        "segment_ids": values["seg_id"],
        "perm_mask": values["perm_mask"],
        "query_input": values["input_q"],
    }
    if mapped:
        batch["target_mapping"] = values["target_mapping"]
    batch = {k: tf.constant(v) for k, v in batch.items()}
    weight = values["target_mask"].astype(np.float32)
    return batch, tf.constant(values["target"]), tf.constant(weight)


MODEL_CONFIG = XLNetConfig(
    vocab_size=29,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    init_std=0.3,
)
IDS = np.random.default_rng(0).integers(0, 29, (4, 7)).astype(np.int32)


@pytest.mark.long
def test_chunked_lm_loss_equals_the_whole():
    model = PretrainingModel(MODEL_CONFIG)
    rng = np.random.default_rng(0)
    hidden = tf.constant(rng.normal(size=(4, 5, 12)), tf.float32)
    targets = tf.constant(rng.integers(0, 29, (4, 5)), tf.int32)
    weights = tf.constant(rng.random((4, 5)) > 0.3, tf.float32)
    variables = [
        model.encoder.embeddings.lookup_table,
        model.lm_head.bias,
    ]

    @tf.function(autograph=False)
    def run(chunk_size):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            sums = model.lm_loss(hidden, targets, weights, chunk_size)
            loss = sums[0] / sums[1]
        return sums, tape.gradient(loss, [hidden, *variables])

    sums, gradients = run(None)
    for chunk_size in (1, 6, 20, 50):
        other_sums, other_gradients = run(chunk_size)
        np.testing.assert_allclose(sums, other_sums, rtol=1e-6)
        for a, b in zip(gradients, other_gradients, strict=True):
            np.testing.assert_allclose(
                tf.convert_to_tensor(a), b, atol=1e-6, rtol=1e-5
            )


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize(
    "model_type", ["xlnet", "bert", "albert", "modernbert"]
)
def test_the_tables_of_a_training_step_have_one_gradient(
    model_type, chunk_size, dtype
):
    """Rows meet the head's gradient where it lies: no second [V, E] is made."""
    sizes = dict(d_model=12, n_layer=1, n_head=3, d_inner=20)
    if model_type == "xlnet":
        sizes["d_head"] = 4
    if model_type == "albert":
        sizes["embedding_size"] = 7
    model = PretrainingModel(new_config(model_type, 29, sizes), dtype=dtype)
    table = model.encoder.embeddings.lookup_table
    targets = tf.constant(IDS[:, ::-1] % 29)

    def run(together):
        fusion.expect_few_shapes()
        with tf.GradientTape() as tape:
            output = model(IDS, training=True, seed=tf.constant([3, 4]))
            total, _, _ = model.lm_loss(
                output.sequence_output,
                targets,
                tf.ones_like(targets),
                chunk_size,
                output.tables if together else None,
            )
        return total, tf.convert_to_tensor(tape.gradient(total, table))

    one, two = (
        tf.function(lambda together=t: run(together), autograph=False)
        for t in (True, False)
    )
    (loss, found), (wanted_loss, wanted) = one(), two()
    np.testing.assert_array_equal(loss, wanted_loss)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert np.count_nonzero(found.numpy().any(1)) > 20
    # Outside of a training step every gradient is that of any variable.
    assert model(IDS).tables is None
    if chunk_size is None:
        assert _sums_of_tables(two, table) and not _sums_of_tables(one, table)


def _sums_of_tables(function, table):
    operations = function.get_concrete_function().graph.get_operations()
    return [
        op
        for op in operations
        if op.type in ("AddN", "UnsortedSegmentSum")
        and op.outputs[0].shape == table.shape
    ]


def test_next_sentence_head():
    model = PretrainingModel(MODEL_CONFIG, next_sentence=True)
    hidden = model(IDS).sequence_output
    assert model.next_sentence_logits(hidden).shape == [4, 2]
    with pytest.raises(ValueError, match="next_sentence=True"):
        PretrainingModel(MODEL_CONFIG).next_sentence_logits(hidden)


@pytest.mark.parametrize(
    "model_type,dropped",
    [("bert", False), ("albert", False), ("xlnet", True)],
)
def test_dropout_before_the_pair_logits(model_type, dropped):
    """NSP and SOP of the released codes have none."""
    sizes = dict(d_model=12, n_layer=1, n_head=3, d_inner=20, dropout=0.5)
    if model_type == "xlnet":
        sizes["d_head"] = 4
    config = new_config(model_type, 29, sizes)
    model = PretrainingModel(config, next_sentence=True)
    hidden = model(tf.constant(IDS % 29)).sequence_output
    still = model.next_sentence_logits(hidden)
    seed = tf.constant([3, 5])
    trained = model.next_sentence_logits(hidden, training=True, seed=seed)
    same = bool(tf.reduce_all(trained == still))
    assert same == (not dropped)
