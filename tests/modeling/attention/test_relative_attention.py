"""One layer of attention: the original's values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.attention.positions import factors, sinusoids
from modeling.attention.relative_attention import RelativeAttention
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import original
from tests.modeling.golden import golden_util, txl_golden


def batch_major(x):
    return np.swapaxes(x, 0, 1)


@pytest.mark.shared
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
    from modeling.attention import masks
    from modeling.attention.attend import Stream

    config = model.config
    length, keys_len = x.shape[1], x.shape[1] + past.shape[1]
    table = sinusoids.sinusoid_table(length, keys_len, config.d_model, "uni")
    shared = (table, *model.encoder.shared_biases())
    keys = block.rel_attn.keys([past, x], length, shared)
    made = masks.attention_masks(
        length, past.shape[1], "uni", config.same_length
    )
    return block.rel_attn(x, keys, Stream(made.content))


def test_a_mixing_of_other_lengths_is_refused():
    layer = RelativeAttention(160, 2, 3)
    layer.build([None, None, 160])
    x = tf.ones([1, 4, 160])
    mixing = factors.by_direction(np.eye(160, dtype=np.float32), 1)
    with pytest.raises(ValueError, match="must have 128 waves for 4 queries"):
        layer.keys([x], 4, (mixing,), "factored")
