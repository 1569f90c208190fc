"""Who sees whom in the rows of the paper's ablation, by gradients."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.pretraining.sampling import masking
from data.pretraining.sampling.masking import reorder
from modeling import PretrainingModel, XLNetConfig
from modeling.encoders.bert.config import BertConfig
from tests.data.pretraining.sampling.toy_batches import IDS
from tests.modeling.properties.influences import influence
from training.jobs.pretrain_options import TARGET_ORDERS
from training.objectives.masked_lm import MaskedLMObjective
from training.objectives.permutation_lm import order_arguments

V, T, REUSE = 23, 9, 4
CONFIG = XLNetConfig(
    vocab_size=V,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    mem_len=4,
    reuse_len=REUSE,
    dropout=0.0,
    dropatt=0.0,
    init_std=0.3,
)
TARGETS = [1, 3, 5, 6]
# [0 1 2 3 | 4 5 6 SEP CLS]: 3 before 1, 6 before 5, CLS before SEP.
STORED = [-1, 1, -1, 0, 4, 6, 5, 8, 7]
REUSED = {0, 1, 2, 3}
SEEN = {
    "random": [{0, 2, 3}, {0, 2}, REUSED | {4, 6}, REUSED | {4}],
    "none": [{0, 2}, {0, 2}, REUSED | {4, 7, 8}, REUSED | {4, 7, 8}],
    "forward": [{0}, {0, 1, 2}, REUSED | {4}, REUSED | {4, 5}],
}


def make_batch():
    """Two rows without a piece in common; a slot of the second is empty."""
    ids = np.random.default_rng(0).permutation(V)[: 2 * T].reshape(2, T)
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.ones([2, T], tf.int32),
        "segment_ids": tf.zeros([2, T], tf.int32),
        "ranks": tf.constant([STORED, STORED], tf.int32),
        "target_positions": tf.constant([TARGETS, TARGETS], tf.int32),
        "target_ids": tf.gather(tf.constant(ids, tf.int32), TARGETS, axis=1),
        "target_weights": tf.ones([2, 4]),
        "row_weight": tf.ones([2]),
        "next_sentence_label": tf.zeros([2], tf.int32),
    }


def places(sizes):
    return [set(np.flatnonzero(row)) for row in sizes]


@pytest.mark.long
@pytest.mark.parametrize("order", TARGET_ORDERS)
def test_targets_see_what_their_order_says(order):
    model = PretrainingModel(CONFIG)
    batch = make_batch()
    if order != "random":
        batch |= {"perm_mask": None, "target_mapping": None}
        batch = reorder(batch, order, REUSE)
    call = {"input_ids": batch["input_ids"].numpy(), **order_arguments(batch)}
    seen = influence(model, lambda o: o.query_output, **call)
    for row in seen:
        assert places(row) == SEEN[order]
    # What becomes memory knows nothing of the next segment's targets.
    content = influence(model, lambda o: o.sequence_output, **call)
    assert (content[:, :REUSE, REUSE:] == 0).all()
    assert (content[:, REUSE, 0] > 0).all()
    diagonal = np.diagonal(content, axis1=1, axis2=2)
    assert (diagonal > 0).all()


def test_an_empty_slot_is_no_target():
    batch = make_batch()
    weights = batch["target_weights"].numpy()
    weights[1, 2:] = 0
    batch["target_weights"] = tf.constant(weights)
    ranks = reorder(batch, "none", REUSE)["ranks"].numpy()
    assert ranks.tolist() == [
        [-1, 0, -1, 0, 4, 5, 5, 4, 4],
        [-1, 0, -1, 0, 4, 4, 4, 4, 4],
    ]


@pytest.mark.long
@pytest.mark.parametrize("stream", ["content", "query"])
@pytest.mark.parametrize("lifted", [False, True])
def test_denoising_sees_all_but_what_memory_must_not_hold(stream, lifted):
    config = CONFIG.replace(n_layer=1)  # nothing comes round by a neighbour
    objective = MaskedLMObjective(config, stream=stream)
    model = objective.build_model()
    options = masking.MaskingOptions(
        *(V, IDS, REUSE),
        mask_share=0.0,
        random_share=0.0,
        hide_rest=not lifted,
    )
    batch = masking.corrupt(make_batch(), tf.constant(0), options)
    call = objective.more_arguments(batch, None)
    call["input_ids"] = batch["input_ids"].numpy()

    def rows(output):
        if stream == "query":
            return output.query_output
        return tf.gather(output.sequence_output, TARGETS, axis=1)

    everything = set(range(T))
    for row in influence(model, rows, **call):
        for place, seen in zip(TARGETS, places(row), strict=True):
            all_of = REUSED if place < REUSE and not lifted else everything
            own = {place} if stream == "query" else set()
            assert seen == all_of - own
    content = influence(model, lambda o: o.sequence_output, **call)
    assert (content[:, :REUSE, REUSE:] > 0).any() == lifted


def test_the_query_stream_learns_to_denoise():
    """Its loss is of its logits, and its start has a gradient."""
    objective = MaskedLMObjective(CONFIG, stream="query")
    model = objective.build_model()
    options = masking.MaskingOptions(V, IDS, REUSE, hide_rest=True)
    batch = masking.corrupt(make_batch(), tf.constant(1), options)
    with tf.GradientTape() as tape:
        out = objective.loss(model, batch, None, True, None)
    variables = objective.named_variables(model)
    gradients = tape.gradient(out.loss_sum, list(variables.values()))
    assert all(g is not None for g in gradients)
    start = list(variables).index("model/transformer/mask_emb/mask_emb")
    assert float(tf.norm(gradients[start])) > 0
    hidden = model(
        batch["input_ids"],
        segment_ids=batch["segment_ids"],
        **objective.more_arguments(batch, None),
    ).query_output
    logits = tf.nn.log_softmax(model.lm_logits(hidden))
    ids = batch["target_ids"]
    wanted = -tf.reduce_sum(tf.gather(logits, ids, axis=-1, batch_dims=2))
    np.testing.assert_allclose(out.loss_sum, wanted, rtol=1e-4)
    assert out.weight_sum == 8


def test_an_encoder_without_a_query_stream_is_one_line():
    with pytest.raises(UserError, match="--mlm_stream=query"):
        MaskedLMObjective(
            BertConfig(vocab_size=V, d_model=8, n_layer=1, n_head=2, d_inner=8),
            stream="query",
        )
