"""Segment recurrence: equal to one segment for short texts, memory counts."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import XLNetConfig
from training.objectives import build as heads

CONFIG = XLNetConfig(
    vocab_size=31,
    d_model=20,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=24,
    dropout=0.0,
    dropatt=0.0,
    init_std=0.4,
)
T, S = 6, 3


def batch(lengths, options=0):
    """Left-padded rows of S * T with so many real tokens."""
    rng = np.random.default_rng(1)
    shape = (len(lengths), S * T)
    mask = np.arange(S * T) >= S * T - np.array(lengths)[:, None]
    arrays = {
        "input_ids": np.where(mask, rng.integers(9, 31, shape), 0),
        "segment_ids": np.where(mask, 0, 4),
        "input_mask": mask.astype(int),
    }
    if options:
        arrays = {k: v.reshape(-1, options, S * T) for k, v in arrays.items()}
    count = len(lengths) // max(1, options)
    arrays["label_ids"] = np.arange(count) % 2
    result = {k: tf.constant(v, tf.int32) for k, v in arrays.items()}
    return result | {"example_weight": tf.ones([count])}


def build(head="classification", segments=S, **options):
    tf.keras.utils.set_random_seed(3)
    objective = heads.build_objective(head, CONFIG, segments, T, **options)
    return objective, objective.build_model()


def tail(b, length):
    return {
        k: v[..., -length:]
        if k in ("input_ids", "segment_ids", "input_mask")
        else v
        for k, v in b.items()
    }


def test_short_rows_give_what_one_segment_gives():
    objective, model = build(num_labels=2)
    plain = heads.build_objective("classification", CONFIG, num_labels=2)
    b = batch([3, 6, 9])
    got = objective.predict(model, b)["logits"].numpy()
    want = plain.predict(model, tail(b, T))["logits"].numpy()
    np.testing.assert_allclose(got[:2], want[:2], atol=1e-6)
    # The third row has three tokens in memory: they change the answer.
    assert np.abs(got[2] - want[2]).max() > 1e-4


def test_the_first_token_of_a_long_document_reaches_the_answer():
    objective, model = build(num_labels=2)
    b = batch([S * T])
    other = dict(b)
    ids = b["input_ids"].numpy()
    ids[0, 0] = 9 if ids[0, 0] != 9 else 10
    other["input_ids"] = tf.constant(ids)
    a, c = (objective.predict(model, x)["logits"].numpy() for x in (b, other))
    # Two layers reach two segments back.
    assert np.abs(a - c).max() > 1e-7


def test_options_carry_their_own_memory():
    objective, model = build("multiple_choice")
    b = batch([S * T, 4, 8, 12], options=2)
    logits = objective.predict(model, b)["logits"].numpy()
    assert logits.shape == (2, 2)
    for row in range(2):
        one = {k: v[row : row + 1] for k, v in b.items()}
        alone = objective.predict(model, one)["logits"].numpy()
        np.testing.assert_allclose(alone[0], logits[row], atol=1e-5)


@pytest.mark.long
def test_loss_has_gradients_through_the_last_segment_only():
    objective, model = build(num_labels=2)
    b = batch([S * T, 5])
    with tf.GradientTape() as tape:
        loss = objective.loss(
            model, b, None, True, tf.constant([1, 2])
        ).loss_sum
    table = objective.named_variables(model)[
        "model/transformer/word_embedding/lookup_table"
    ]
    gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
    last = set(b["input_ids"].numpy()[:, -T:].reshape(-1).tolist())
    touched = set(np.flatnonzero(np.abs(gradient).sum(1)).tolist())
    assert touched and touched <= last


def test_heads_without_long_documents_are_refused():
    with pytest.raises(UserError, match="--segment_recurrence is for"):
        heads.build_objective("span", CONFIG, 2, T)
