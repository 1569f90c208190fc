"""What holds of any left-to-right model, and the original's numbers."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention import chunked
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import original
from tests.modeling.encoders.transformer_xl.toy_models import toy
from tests.modeling.golden import golden_util, txl_golden


def batch_major(x):
    return np.swapaxes(x, 0, 1)


def check_segments(name, model, arrays, settings):
    """Three segments; returns the memory that the third one read."""
    config, past = model.config, None
    if settings["start"] == "zeros" and config.mem_len:
        rows = arrays["seg0/inputs"].shape[0]
        shape = [rows, config.mem_len, config.d_model]
        past = (tf.zeros(shape),) * config.n_layer
    count = 1 + max(int(k[3]) for k in arrays if k.startswith("seg"))
    for i in range(count):
        before = past
        inputs = arrays[f"seg{i}/inputs"]
        output = model(inputs, memory=past, training=False)
        golden_util.assert_close(
            output.sequence_output,
            batch_major(arrays[f"seg{i}/hidden"]),
            f"{name} seg{i} hidden",
        )
        losses = model.token_losses(
            output.sequence_output, arrays[f"seg{i}/targets"]
        )
        golden_util.assert_close(
            losses, batch_major(arrays[f"seg{i}/nll"]), f"{name} seg{i} nll"
        )
        past = output.new_memory
        for layer, kept in enumerate(past or ()):
            golden_util.assert_close(
                kept,
                batch_major(arrays[f"seg{i}/new_mems_{layer}"]),
                f"{name} seg{i} memory {layer}",
            )
    return before, inputs, arrays[f"seg{count - 1}/targets"]


@pytest.mark.long
@pytest.mark.shared
def test_segments_and_gradients_of_every_case(golden):
    found = txl_golden.cases(golden)
    with_gradients = 0
    for name, case in found["cases"].items():
        settings = case["settings"]
        config = txl_golden.config(found["config"], settings)
        weights = txl_golden.case_arrays(golden, case["variables"])
        model = txl_golden.build(config, weights)
        count = sum(int(np.prod(v.shape)) for v in model.variables)
        assert count == case["n_params"], name
        arrays = txl_golden.load(golden, name)
        past, inputs, targets = check_segments(name, model, arrays, settings)
        wanted = golden_util.gradients_of(arrays, "grad")
        if not wanted:
            continue
        with_gradients += 1
        variables = named_variables(model)
        with tf.GradientTape() as tape:
            output = model(inputs, memory=past, training=True)
            losses = model.token_losses(output.sequence_output, targets)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, list(variables.values()))
        dense = {
            key: tf.convert_to_tensor(g).numpy()
            for key, g in zip(variables, gradients, strict=True)
        }
        ours = original.stack(dense)
        golden_util.assert_gradients(ours, wanted)
        norm = tf.linalg.global_norm(list(ours.values()))
        np.testing.assert_allclose(norm, arrays["gnorm"], rtol=2e-5)
    assert with_gradients >= 5


def test_nothing_comes_from_the_future_and_no_gradient_leaves_with_memory():
    model = toy()
    ids = tf.random.stateless_uniform([2, 6], [7, 8], 0, 31, tf.int32)
    block = model.encoder.blocks[0]
    taken = model.encoder.embeddings(ids)
    for position in range(6):
        with tf.GradientTape() as tape:
            tape.watch(taken)
            model.encoder.embeddings.call = lambda *_: taken
            output = model(ids)
            row = tf.reduce_sum(output.sequence_output[:, position] ** 2)
        seen = tf.reduce_sum(tf.abs(tape.gradient(row, taken)), [0, 2]).numpy()
        assert (seen[position + 1 :] == 0).all()
        assert (seen[: position + 1] > 0).all()
    del model.encoder.embeddings.call
    kernel = block.rel_attn.kernels["k"]
    with tf.GradientTape() as tape:
        memory = model(ids).new_memory
        kept = sum(tf.reduce_sum(m**2) for m in memory)
    assert tape.gradient(kept, kernel) is None


@pytest.mark.long
@pytest.mark.parametrize(
    "form, same_length",
    [("radix", False), ("factored", False), ("blocks", True)],
)
def test_fast_forms_of_attention_are_the_plain_one(
    form, same_length, monkeypatch
):
    """Tiles or factors on TPU, blocks with fewer keys there and on CPU."""
    shape = {"mem_len": 16, "same_length": same_length}
    ids = tf.random.stateless_uniform([2, 32], [7, 8], 0, 31, tf.int32)
    memory = tuple(
        tf.random.stateless_normal([2, 16, 10], [i, 3]) for i in range(2)
    )

    def run(query_shift):
        model = toy(query_shift=query_shift, **shape)
        with tf.GradientTape() as tape:
            output = model(
                ids, memory=memory, memory_length=[5, 16], training=True
            )
            losses = model.token_losses(output.sequence_output, ids)
        found = tape.gradient(losses, model.trainable_variables)
        return [losses, *map(tf.convert_to_tensor, found)]

    wanted = run("gather")
    if form == "blocks":
        monkeypatch.setattr(chunked, "MIN_BLOCK_ROWS", 8)
    found = run("gather" if form == "blocks" else form)
    for a, b in zip(wanted, found, strict=True):
        scale = max(1.0, np.abs(a).max())
        # Sums in another order: 2.2e-6 on a processor with AMX.
        np.testing.assert_allclose(a / scale, b / scale, atol=3e-6)


def run_in_pieces(model, ids, pieces, hidden=True):
    """Probabilities [B, T, V] of the text read in segments of these lengths."""
    config, found, start = model.config, [], 0
    shape = [ids.shape[0], config.mem_len, config.d_model]
    memory = (tf.zeros(shape),) * config.n_layer
    length = tf.zeros([ids.shape[0]], tf.int32) if hidden else None
    for piece in pieces:
        output = model(
            ids[:, start : start + piece], memory=memory, memory_length=length
        )
        memory = output.new_memory
        length = output.new_memory_length if hidden else None
        found.append(np.exp(model.log_probs(output.sequence_output)))
        start += piece
    return np.concatenate(found, 1)


@pytest.mark.long
@pytest.mark.parametrize(
    "clamp_len", [3, pytest.param(-1, marks=pytest.mark.slow)]
)
def test_same_length_with_full_memory_does_not_depend_on_the_segments(
    clamp_len,
):
    model = toy(same_length=True, clamp_len=clamp_len)
    ids = tf.random.stateless_uniform([2, 20], [9, 1], 0, 31, tf.int32)
    for hidden in (False, True):
        whole = run_in_pieces(model, ids, [20], hidden)
        for pieces in ([4] * 5, [1] * 20, [7, 2, 8, 3]):
            found = run_in_pieces(model, ids, pieces, hidden)
            np.testing.assert_allclose(found, whole, atol=1e-6)
    other = toy(same_length=False)
    ours = run_in_pieces(other, ids, [20])
    assert np.abs(run_in_pieces(other, ids, [4] * 5) - ours).max() > 1e-3


def test_hidden_start_is_a_start_without_memory():
    model = toy()
    ids = tf.random.stateless_uniform([2, 4], [3, 1], 0, 31, tf.int32)
    bare = model(ids).sequence_output
    memory = (tf.fill([2, 5, 10], 9.0),) * 2
    output = model(ids, memory=memory, memory_length=tf.zeros([2], tf.int32))
    np.testing.assert_allclose(output.sequence_output, bare, atol=1e-6)
    assert list(output.new_memory_length) == [4, 4]
    zeros = (tf.zeros([2, 5, 10]),) * 2
    seen = model(ids, memory=zeros).sequence_output
    assert np.abs(seen - bare).max() > 1e-2
