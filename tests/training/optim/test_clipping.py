"""The joint norm of gradients, and the factor that bounds it."""

import numpy as np
import pytest
import tensorflow as tf

from training.optim.clipping import clip_factor


@pytest.mark.shared
def test_norms_before_clipping_are_the_originals(golden):
    reference = np.load(golden / "optim" / "toy.npz")
    names = [str(n) for n in reference["names"]]
    for step in range(5):
        gradients = [tf.constant(reference[f"grads/{n}"][step]) for n in names]
        _, norm = clip_factor(gradients, 1.0)
        np.testing.assert_allclose(
            norm, reference["adamw/gnorm"][step], rtol=1e-6
        )


@pytest.mark.parametrize("limit", [0.0, 0.5, 100.0])
def test_scale_and_clipping_are_one_factor(limit):
    random = np.random.default_rng(8)
    gradients = [tf.constant(random.normal(size=n)) for n in (3, 5)]
    gradients = [tf.cast(g, tf.float32) for g in gradients]
    scaled = [g * 0.25 for g in gradients]
    norm = np.sqrt(sum(np.sum(np.square(g)) for g in scaled))
    wanted = scaled
    if limit:
        wanted, _ = tf.clip_by_global_norm(scaled, limit)
    factor, found = clip_factor(gradients, limit, 0.25)
    np.testing.assert_allclose(found, norm, rtol=1e-6)
    for g, w in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(g * factor, w, rtol=1e-6)


def test_zero_gradient_is_clipped_without_a_nan():
    factor, norm = clip_factor([tf.zeros([3]), tf.zeros([2])], 1.0)
    assert float(norm) == 0.0
    assert float(factor) == 1.0
