"""K-NRM against golden values and gradients; ranking losses by hand."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.heads import kernel_pooling, ranking_losses
from modeling.heads.kernel_pooling import Kernels

VALUES, WEIGHTS, VECTORS = 2e-5, 1e-6, 1e-3


@pytest.fixture(scope="module")
def arrays(golden):
    with np.load(golden / "ranking/knrm.npz", allow_pickle=False) as f:
        return {name: f[name] for name in f.files}


def run(arrays, kernels):
    """Values by golden name, and gradients."""
    names = ("query", "positive", "negative", "w", "b")
    inputs = {n: tf.constant(arrays[f"in/{n}"]) for n in names}
    weights = tf.constant(arrays["in/query_mask"])
    found = {}
    with tf.GradientTape() as tape:
        tape.watch(list(inputs.values()))
        for side in ("positive", "negative"):
            cosine = kernel_pooling.cosines(inputs["query"], inputs[side])
            mask = tf.constant(arrays[f"in/{side}_mask"])
            counts = kernel_pooling.soft_tf(cosine, mask, kernels)
            phi = kernel_pooling.features(counts, weights)
            found.setdefault("cosine", cosine)
            found.setdefault("soft_tf", counts)
            found[f"features_{side}"] = phi
            found[f"score_{side}"] = kernel_pooling.score(
                phi, inputs["w"], inputs["b"]
            )
        losses = ranking_losses.hinge(
            found["score_positive"], found["score_negative"]
        )
        found["loss"] = tf.reduce_mean(losses)
    return found, tape.gradient(found["loss"], inputs)


@pytest.mark.shared
def test_golden_values_and_gradients(arrays):
    kernels = Kernels(
        tuple(arrays["mu"].tolist()), tuple(arrays["sigma"].tolist())
    )
    values, gradients = run(arrays, kernels)
    for name, value in values.items():
        np.testing.assert_allclose(
            value, arrays[name], rtol=0, atol=VALUES, err_msg=name
        )
    for name, gradient in gradients.items():
        wanted = arrays[f"grad/{name}"]
        bound = WEIGHTS
        if name in ("query", "positive", "negative"):
            bound = VECTORS * np.abs(wanted).max()
        np.testing.assert_allclose(
            gradient, wanted, rtol=0, atol=bound, err_msg=name
        )


@pytest.mark.shared
def test_the_papers_kernels_are_the_default(arrays):
    made = Kernels.even(len(arrays["mu"]) - 1)
    np.testing.assert_allclose(made.mu, arrays["mu"], atol=1e-12)
    np.testing.assert_allclose(made.sigma, arrays["sigma"], atol=1e-12)


@pytest.mark.shared
def test_vectors_in_bfloat16_are_compared_in_float64(arrays):
    query = tf.constant(arrays["in/query"])
    for dtype in (tf.bfloat16, tf.float16):
        low = tf.cast(query, dtype)
        cosine = kernel_pooling.cosines(low, low)
        assert cosine.dtype == tf.float64
        np.testing.assert_allclose(
            tf.linalg.diag_part(cosine), np.ones(query.shape[:2]), atol=1e-12
        )


@pytest.mark.shared
def test_the_exact_kernel_does_not_hang_on_the_order_of_sums(arrays):
    kernels = Kernels.even()
    vectors = [arrays[f"in/{n}"] for n in ("query", "positive")]
    backwards = [x[..., ::-1] for x in vectors]
    mask = arrays["in/positive_mask"]
    counts, again = (
        kernel_pooling.soft_tf(
            kernel_pooling.cosines(*pair), mask, kernels
        ).numpy()
        for pair in (vectors, backwards)
    )
    # A cosine in float32 would make that 4e-4 of a count.
    np.testing.assert_allclose(counts, again, rtol=2e-6, atol=1e-30)


def test_other_numbers_of_kernels_and_padding():
    rng = np.random.default_rng(0)
    query = rng.normal(size=(1, 3, 4)).astype(np.float32)
    document = rng.normal(size=(1, 6, 4)).astype(np.float32)
    kernels = Kernels.even(3, 0.05)
    assert kernels.mu == pytest.approx((1, 2 / 3, 0, -2 / 3))
    short = kernel_pooling.pair_features(
        query, np.ones((1, 3)), document[:, :4], np.ones((1, 4)), kernels
    )
    mask = np.array([[1, 1, 1, 1, 0, 0]])
    masked = kernel_pooling.pair_features(
        np.pad(query, [(0, 0), (0, 2), (0, 0)]),
        np.array([[1, 1, 1, 0, 0]]),
        document,
        mask,
        kernels,
    )
    assert short.shape == (1, 4)
    np.testing.assert_allclose(short, masked, rtol=1e-6)
    for wrong in (((1.0,), ()), ((1.0,), (0.0,))):
        with pytest.raises(ValueError, match="sigma"):
            Kernels(*wrong)
