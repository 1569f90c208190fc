"""Losses of rankings by hand."""

import math

import pytest
import tensorflow as tf

from modeling.heads import ranking_losses


def test_losses_by_hand():
    scores = tf.constant([[1.0, 0.5, -2.0], [0.3, 0.3, 0.3]])
    grades = tf.constant([[0.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
    found = {
        name: ranking_losses.of_lists(name, scores, grades).numpy()
        for name in ("hinge", "ranknet", "softmax", "pointwise")
    }
    assert found["hinge"] == pytest.approx([(1.5 + 0.0) / 2, 0.0])
    log1p = [math.log1p(math.exp(x)) for x in (0.5, -2.5)]
    assert found["ranknet"] == pytest.approx([sum(log1p) / 2, 0.0], rel=1e-5)
    partition = sum(math.exp(x) for x in (1.0, 0.5, -2.0))
    assert found["softmax"] == pytest.approx(
        [math.log(partition) - 0.5, math.log(3)], rel=1e-5
    )
    single = [math.log1p(math.exp(x)) for x in (1.0, -0.5, -2.0)]
    assert found["pointwise"][0] == pytest.approx(sum(single) / 3, rel=1e-5)
    with pytest.raises(ValueError, match="ranking loss"):
        ranking_losses.of_lists("none", scores, grades)
