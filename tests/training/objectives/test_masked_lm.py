"""Masked LM for every encoder; with memory it must not leak."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract import symbols
from common.errors import UserError
from data.pretraining.sampling import masking
from data.pretraining.sampling.masking import MaskingOptions
from modeling import XLNetConfig
from modeling.checkpoints.names import named_variables
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from tests.data.pretraining.sampling.toy_batches import IDS, T, V, make_batch
from training.objectives.contract import Memory
from training.objectives.masked_lm import MaskedLMObjective

SIZES = dict(vocab_size=V, d_model=12, n_layer=2, n_head=2, d_inner=20)
REUSE = 8
XLNET = XLNetConfig(
    **SIZES, d_head=5, mem_len=6, reuse_len=REUSE, dropout=0.0, dropatt=0.0
)
CONFIGS = [
    BertConfig(**SIZES, dropout=0.0, dropatt=0.0),
    AlbertConfig(**SIZES, embedding_size=7, classifier_dropout=0.0),
    ModernBertConfig(**SIZES, local_window=4),
    XLNET.replace(mem_len=0),
]


@pytest.mark.long
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_the_loss_is_that_of_the_targets(config):
    last = config.model_type == "xlnet"
    objective = MaskedLMObjective(config, next_sentence=True)
    model = objective.build_model()
    options = MaskingOptions(
        V, IDS, 0, layout="cls_last" if last else "cls_first", pair="nsp"
    )
    batch = masking.corrupt(make_batch(4), tf.constant(1), options)
    batch["pair_weight"] = tf.constant([1.0, 0.0, 1.0, 1.0])
    with tf.GradientTape() as tape:
        out = objective.loss(model, batch, None, True, None)
    hidden = model(
        batch["input_ids"],
        segment_ids=batch["segment_ids"],
        input_mask=batch["input_mask"],
    ).sequence_output
    logits = model.lm_logits(hidden).numpy()  # [B, T, V]
    log_probs = np.asarray(tf.nn.log_softmax(logits))
    loss, per_row = 0.0, []
    for row in range(4):
        used = batch["target_weights"][row].numpy() > 0
        places = batch["target_positions"][row].numpy()[used]
        ids = batch["target_ids"][row].numpy()[used]
        loss -= log_probs[row, places, ids].sum()
        per_row.append(len(ids))
    pair = model.next_sentence_logits(hidden, batch["input_mask"])
    pair = np.asarray(tf.nn.log_softmax(pair))
    labels = batch["next_sentence_label"].numpy()
    for row in (0, 2, 3):
        loss -= per_row[row] * pair[row, labels[row]]
    np.testing.assert_allclose(out.loss_sum, loss, rtol=1e-4)
    assert out.weight_sum == sum(per_row)
    assert out.metrics["next_sentence_accuracy"][1] == 3
    variables = named_variables(model)
    gradients = tape.gradient(out.loss_sum, list(variables.values()))
    without = [
        n for n, g in zip(variables, gradients, strict=True) if g is None
    ]
    # The query stream's start is not used, and segments of XLNet have no
    # gradient-free variable beside it.
    assert [n for n in without if "mask_emb" not in n] == []
    means = {"lm_loss": 1.0}
    assert "perplexity" not in objective.derived_metrics(means)


def _new_memory(ids, lifted=False):
    """Memory after a segment whose uncorrupted ids are given."""
    tf.keras.utils.set_random_seed(1)
    objective = MaskedLMObjective(XLNET)
    model = objective.build_model()
    for i, variable in enumerate(model.variables):
        if variable.shape.rank > 1:
            variable.assign(tf.random.stateless_normal(variable.shape, [5, i]))
    options = MaskingOptions(V, IDS, REUSE, hide_rest=not lifted)
    batch = make_batch(2)
    batch["input_ids"] = tf.constant(ids)
    batch["target_ids"] = tf.gather(
        batch["input_ids"], batch["target_positions"], batch_dims=1
    )
    batch = masking.corrupt(batch, tf.constant(0), options)
    empty = Memory(
        tuple(tf.zeros([2, 6, 12]) for _ in range(2)), tf.zeros([2], tf.int32)
    )
    out = objective.loss(model, batch, empty, False, None)
    return out.new_memory.layers[1].numpy()


@pytest.mark.long
def test_memory_never_sees_the_next_segments_targets():
    """Another piece in the second part: the same memory, bit for bit."""
    ids = make_batch(2)["input_ids"].numpy()
    changed = ids.copy()
    for place in range(REUSE, T - 2):
        if ids[0, place] not in (IDS.sep, IDS.cls):
            changed[:, place] = 9 + (changed[:, place] - 8) % (V - 9)
    assert (changed != ids).sum() > T
    before, after = _new_memory(ids), _new_memory(changed)
    np.testing.assert_array_equal(before, after)
    # With the block lifted the memory holds what the next segment must guess.
    before, after = _new_memory(ids, True), _new_memory(changed, True)
    assert np.abs(before - after).max() > 1e-3


def test_backward_rows_are_for_encoders_that_read_them():
    with pytest.raises(UserError, match="bert takes no backward rows"):
        MaskedLMObjective(CONFIGS[0], bi_data=True)
    assert MaskedLMObjective(XLNET, bi_data=True).row_groups == 2
    assert symbols.CLS_FIRST == "cls_first"
