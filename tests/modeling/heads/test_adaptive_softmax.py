"""The adaptive softmax: the original's probabilities, and sums of one."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.encoders.transformer_xl.embeddings import AdaptiveEmbedding
from modeling.heads.adaptive_softmax import AdaptiveSoftmax
from tests.modeling.encoders.transformer_xl.toy_models import toy
from tests.modeling.golden import golden_util, txl_golden


@pytest.mark.long
@pytest.mark.shared
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


def test_probabilities_of_all_clusters_sum_to_one_and_are_the_losses():
    model = toy()
    hidden = tf.random.stateless_normal([3, 4, 10], [1, 2])
    log_probs = model.log_probs(hidden)  # [B, T, V]
    total = tf.reduce_sum(tf.exp(log_probs), -1)
    np.testing.assert_allclose(total, np.ones([3, 4]), atol=1e-6)
    targets = tf.random.stateless_uniform([3, 4], [5, 6], 0, 31, tf.int32)
    wanted = -tf.gather(log_probs, targets, batch_dims=2)
    for chunk in (None, 1, 5, 12):
        losses = model.token_losses(hidden, targets, chunk)
        np.testing.assert_allclose(losses, wanted, atol=1e-6)
