"""The original Transformer-XL's numbers: forward, gradients, softmax alone."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import original
from modeling.encoders.transformer_xl.embeddings import AdaptiveEmbedding
from modeling.heads.adaptive_softmax import AdaptiveSoftmax
from tests.modeling.golden import golden_util, txl_golden

pytestmark = pytest.mark.shared


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


def test_the_softmax_alone_gives_all_log_probabilities(golden):
    found = txl_golden.cases(golden)["units"]["adaptive"]
    arrays = txl_golden.load(golden, "adaptive")
    sizes = found | {"n_layer": 1, "n_head": 1, "d_head": 2, "d_inner": 2}
    sizes["mem_len"] = 0
    hidden, ids = arrays["hidden"], arrays["ids"]
    for name, variant in found["variants"].items():
        config = txl_golden.config(sizes, variant)
        embedding = AdaptiveEmbedding(config)
        embedding.build([None, None])
        softmax = AdaptiveSoftmax(config)
        softmax.build(None)
        stored = golden_util.gradients_of(arrays, f"{name}/var")
        for layer, scope in ((embedding, ""), (softmax, "adaptive_softmax/")):
            for key, path in layer.variable_paths().items():
                get_variable(layer, path).assign(stored.pop(scope + key))
        assert not stored, name
        golden_util.assert_close(
            embedding(ids), arrays[f"{name}/embedding"], f"{name} embedding"
        )
        log_probs = softmax.log_probs(tf.constant(hidden), embedding)
        golden_util.assert_close(
            log_probs, arrays[f"{name}/logprob"], f"{name} log-probabilities"
        )
        check_all_targets(name, softmax, embedding, config, arrays)


def check_all_targets(name, softmax, embedding, config, arrays):
    """Every hidden vector with every id as its target."""
    hidden = tf.constant(arrays["hidden"])
    n, v = hidden.shape[0], config.vocab_size
    targets = tf.tile(tf.range(v), [n])
    for chunk in (None, 7):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            rows = tf.repeat(hidden, v, axis=0)
            losses = softmax.token_losses(rows, targets, embedding, chunk)
            loss = tf.reduce_mean(losses)
        golden_util.assert_close(
            tf.reshape(losses, [n, v]), -arrays[f"{name}/logprob"], name
        )
        golden_util.assert_close(loss, arrays[f"{name}/mean_nll"], name)
        golden_util.assert_gradients(
            {"hidden": tape.gradient(loss, hidden).numpy()},
            {"hidden": arrays[f"{name}/grad_hidden"]},
        )


def get_variable(layer, path):
    value = layer
    for part in path.split("/"):
        if isinstance(value, (list, dict)):
            value = value[int(part) if isinstance(value, list) else part]
        else:
            value = getattr(value, part)
    return value


def test_one_attention_layer(golden):
    """Gradients reach memory that is fed; `units.npz` has one layer."""
    arrays = txl_golden.load(golden, "units")
    units = txl_golden.cases(golden)["units"]["units"]
    sizes = units | {"n_layer": 1, "n_token": 3, "mem_len": units["m"]}
    for same in (0, 1):
        config = txl_golden.config(sizes, {"same_length": bool(same)})
        model = txl_golden.CausalLanguageModel(config)
        block = model.encoder.blocks[0]
        stored = golden_util.gradients_of(arrays, "var/unit")
        stored = original.unstack(
            {f"transformer/layer_0/{k}": v for k, v in stored.items()},
            config,
            "units",
        )
        variables = named_variables(model)
        for key, value in stored.items():
            variables[key].assign(value)
        for bias in ("r_w_bias", "r_r_bias"):
            variables[f"transformer/{bias}"].assign(arrays[f"attn/{bias}"])
        x = tf.constant(batch_major(arrays["attn/w"]))
        past = tf.constant(batch_major(arrays["attn/mems"]))
        with tf.GradientTape() as tape:
            tape.watch([x, past])
            out = attention_of(model, block, x, past)
            loss = tf.reduce_sum(
                out * batch_major(arrays[f"attn/same{same}/cotangent"])
            )
        prefix = f"attn/same{same}"
        golden_util.assert_close(out, batch_major(arrays[f"{prefix}/out"]))
        d_x, d_past = tape.gradient(loss, [x, past])
        golden_util.assert_gradients(
            {"w": d_x.numpy(), "mems": d_past.numpy()},
            {
                "w": batch_major(arrays[f"{prefix}/grad_w"]),
                "mems": batch_major(arrays[f"{prefix}/grad_mems"]),
            },
        )


def attention_of(model, block, x, past):
    from modeling.attention import masks, positions
    from modeling.attention.attend import Stream

    config = model.config
    length, keys_len = x.shape[1], x.shape[1] + past.shape[1]
    table = positions.sinusoid_table(length, keys_len, config.d_model, "uni")
    shared = (table, *model.encoder.shared_biases())
    keys = block.rel_attn.keys([past, x], length, shared)
    made = masks.attention_masks(
        length, past.shape[1], "uni", config.same_length
    )
    return block.rel_attn(x, keys, Stream(made.content))
