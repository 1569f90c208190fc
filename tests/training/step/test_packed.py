"""Packed batches give what padded ones give: logits, losses, gradients."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from common.heads import HEADS
from data.pretraining.sampling import masking
from data.pretraining.sampling.masking import MaskingOptions
from modeling import XLNetConfig
from modeling.checkpoints.names import named_variables
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from tests.data.pretraining.sampling.toy_batches import IDS, V
from tests.data.pretraining.sampling.toy_batches import (
    make_batch as pretrain_batch,
)
from tests.helpers.runs import toy
from tests.training.objectives import toy_heads as heads
from training import loop
from training.objectives.build import build_objective
from training.objectives.masked_lm import MaskedLMObjective
from training.run_options import OptimizerOptions
from training.step.static_lengths import by_length

SIZES = dict(vocab_size=V, d_model=12, n_layer=2, n_head=2, d_inner=20)
STILL = dict(dropout=0.0, dropatt=0.0)
BERT = BertConfig(**SIZES, **STILL)
ALBERT = AlbertConfig(**SIZES, embedding_size=7, classifier_dropout=0.0)
MODERN = ModernBertConfig(**SIZES, local_window=4, global_every=2)
XLNET = XLNetConfig(**SIZES, **STILL, d_head=5, mem_len=4)
# Left to right, one set of biases, distances beyond 3 are one.
XLNET_UNI = XLNET.replace(attn_type="uni", untie_r=False, clamp_len=3)
T = 12
CASES = [
    (BERT, "classification"),
    (ALBERT, "multiple_choice"),
    (MODERN, "span"),
    (BERT, "token_classification"),
    (MODERN, "pretraining"),
    (XLNET, "classification"),
    (XLNET, "multi_label"),
    (XLNET_UNI, "regression"),
    (XLNET, "ranking"),
    (XLNET, "multiple_choice"),
    (XLNET, "span"),
    (XLNET, "token_classification"),
]
HEAD_OPTIONS = heads.OPTIONS | {
    "multi_label": {"num_labels": heads.Y, "summary_type": "attn"},
    "ranking": {},
}


def examples(head, left=False):
    """Rows of 2 to T tokens, padded on one side; the last does not count."""
    lists = head == "ranking"
    batch = heads.examples("multiple_choice" if lists else head)
    if lists:  # grades of C documents
        grades = np.arange(heads.N * heads.C, dtype=np.float32) % 4
        batch["label_ids"] = grades.reshape(-1, heads.C)
    rng = np.random.default_rng(5)
    lead = batch["input_ids"].shape[:-1]
    batch["input_ids"] = rng.integers(9, V, [*lead, T]).astype(np.int32)
    lengths = rng.integers(2, T + 1, lead)
    place = np.arange(T) - (T - lengths[..., np.newaxis] if left else 0)
    mask = ((place >= 0) & (place < lengths[..., np.newaxis])).astype(np.int32)
    batch["input_mask"] = mask
    cut = lengths[..., np.newaxis] // 2
    batch["segment_ids"] = (place >= cut).astype(np.int32) * mask
    batch["example_weight"][-1] = 0.0
    if head == "span":
        batch["paragraph_mask"] = mask
        batch["cls_index"] = np.zeros(len(lengths), np.int32)
        batch["start_positions"] = (lengths // 3).astype(np.int32)
        batch["end_positions"] = (lengths - 1).astype(np.int32)
    if head == "token_classification":
        labels = rng.integers(0, heads.Y, [*lead, T])
        batch["label_ids"] = np.where(mask, labels, -1).astype(np.int32)
    return batch


def make(config, head, pack):
    if head == "pretraining":
        return MaskedLMObjective(config, next_sentence=True, pack=pack)
    return build_objective(head, config, pack=pack, **HEAD_OPTIONS[head])


def batch_of(config, head):
    if head != "pretraining":
        left = make(config, head, False).pads_left
        return {k: tf.constant(v) for k, v in examples(head, left).items()}
    batch = pretrain_batch(6)
    # The ends of lanes: nothing real, or half of a row.
    ids, segments, mask, weights = (
        batch[name].numpy()
        for name in (
            "input_ids",
            "segment_ids",
            "input_mask",
            "target_weights",
        )
    )
    for row, real in ((1, 0), (2, 12), (4, 17)):
        mask[row, real:] = 0
        if real:
            ids[row, real - 1], segments[row, real - 1] = IDS.cls, 2
        weights[row, batch["target_positions"][row].numpy() >= real - 1] = 0
    batch |= {
        "input_ids": tf.constant(ids),
        "segment_ids": tf.constant(segments),
        "input_mask": tf.constant(mask),
        "target_weights": tf.constant(weights),
    }
    batch["row_weight"] = tf.constant([1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    options = MaskingOptions(V, IDS, 0, layout="cls_first", pair="nsp")
    return masking.corrupt(batch, tf.constant(1), options)


def outcome(config, head, pack, known=False):
    """(mean loss and metrics, logits or beams, gradients, packed rows)."""
    tf.keras.utils.set_random_seed(3)
    objective = make(config, head, pack)
    model = objective.build_model()
    for i, variable in enumerate(model.variables):
        if variable.shape.rank > 1:
            value = tf.random.stateless_normal(variable.shape, [7, i])
            variable.assign(0.2 * value)
    variables = named_variables(model)
    rows = []

    def losses(batch):
        if pack:
            rows.append(batch["packing"].source.shape[0])
        with tf.GradientTape() as tape:
            out = objective.loss(model, batch, None, True, None)
            loss = out.loss_sum / out.weight_sum
        gradients = tape.gradient(
            loss,
            list(variables.values()),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        means = [loss, *(a / b for a, b in out.metrics.values())]
        return means, [tf.convert_to_tensor(g) for g in gradients]

    def answers(batch):
        if head == "pretraining":
            return {}
        return objective.predict(model, batch)

    @tf.function(autograph=False)
    def run(batch):
        return (
            by_length(objective, batch, losses, known),
            by_length(objective, batch, answers, known),
        )

    (means, gradients), found = run(batch_of(config, head))
    named = dict(zip(variables, gradients, strict=True))
    return means, found, named, rows


@pytest.mark.long
@pytest.mark.parametrize(
    "config,head",
    [
        pytest.param(
            config,
            head,
            id=f"{config.model_type}-{head}",
            marks=[] if head == "classification" else pytest.mark.slow,
        )
        for config, head in CASES
    ],
)
def test_a_packed_batch_equals_its_rows(config, head):
    known = config is ALBERT or head == "ranking"
    means, found, gradients, _ = outcome(config, head, False)
    packed = outcome(config, head, True, known)
    np.testing.assert_allclose(packed[0], means, rtol=1e-6)
    # One program of any number of rows, or one for each of a few numbers.
    assert set(packed[3]) == ({5, 10, 15, 20, 25, 30, 33} if known else {None})
    counts = batch_of(config, head).get("example_weight")
    for name, wanted in found.items():
        for row in np.flatnonzero(counts):
            a, b = packed[1][name][row], wanted[row]
            if head == "token_classification":
                real = batch_of(config, head)["input_mask"][row] > 0
                a, b = a[real], b[real]
            seen = np.abs(b) < 1e20  # beyond: beams that there are not
            np.testing.assert_allclose(
                np.asarray(a)[seen], np.asarray(b)[seen], atol=1e-6, rtol=1e-6
            )
    for name, wanted in gradients.items():
        bound = 1e-6 * max(1.0, np.abs(wanted).max())
        error = np.abs(packed[2][name] - wanted).max()
        assert error <= bound, (name, error, bound)


def test_encoders_that_do_not_pack_say_no():
    config = TransformerXLConfig(**SIZES, d_head=6)
    with pytest.raises(UserError, match="--pack needs an encoder with packed"):
        build_objective("classification", config, num_labels=2, pack=True)


@pytest.mark.parametrize("head", HEADS)
def test_every_head_of_xlnet_packs_or_says_no(head):
    """Those that do are the cases above, or the same model."""
    refusals = {
        "pretraining": "--pack: xlnet packs rows in fine-tuning only",
        "language_model": "the head `language_model` needs model_type",
        "candidate_ranking": "--pack: rows with a query stream are not packed",
        "embedding": "the head `embedding` is not trained",
    }
    if head not in refusals:
        assert (XLNET, head) in CASES or (XLNET_UNI, head) in CASES
        assert make(XLNET, head, True).pack
        return
    with pytest.raises(UserError, match=f"^{refusals[head]}"):
        build_objective(head, XLNET, pack=True)


@pytest.mark.parametrize(
    "head", [n for n, row in HEADS.items() if row.reads_segments]
)
def test_segments_with_memory_are_not_packed(head):
    with pytest.raises(UserError, match="^--pack: the segments of --segment_r"):
        build_objective(
            head,
            XLNET,
            segments=2,
            segment_len=T,
            pack=True,
            **HEAD_OPTIONS[head],
        )


def test_masked_lm_of_xlnet_is_not_packed():
    with pytest.raises(UserError, match="^--pack: xlnet packs rows in fine-"):
        MaskedLMObjective(XLNET, pack=True)


class _Crash(Exception):
    pass


def _trained(
    folder, config, pack, stop_at=None, rate=1e-3, warmup=1, **changes
):
    """(weights, metrics) of a run of several batches, some of them short."""
    objective = make(config, "classification", pack)
    rows = examples("classification", objective.pads_left)
    endless, once = heads.functions(rows)

    def from_step(params):
        return endless(params).skip(params["start_step"])

    def say(line):
        if stop_at and line.startswith(f"step {stop_at}/"):
            raise _Crash

    options = toy.run_options(
        folder,
        train_batch_size=4,
        eval_batch_size=8,
        optimizer=OptimizerOptions(learning_rate=rate, warmup_steps=warmup),
        **changes,
    )
    result = loop.train(objective, from_step, options, say=say)
    evaluation = loop.evaluate(objective, once, options, model=result.model)
    return result.model.get_weights(), evaluation.metrics


def _compare(packed, plain):
    for a, b in zip(packed[0], plain[0], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    for name, value in plain[1].items():
        assert packed[1][name] == pytest.approx(value, abs=2e-5)


def _assert_equal(run, other):
    for a, b in zip(run[0], other[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert run[1] == other[1]


@pytest.mark.slow
@pytest.mark.parametrize("config", [MODERN, XLNET], ids=["modernbert", "xlnet"])
def test_a_packed_run_is_the_padded_one_and_goes_on_where_it_stopped(
    config, tmp_path
):
    steps = dict(
        train_steps=4, save_steps=2, iterations=2, grad_accumulation_steps=2
    )
    packed = _trained(tmp_path / "packed", config, True, **steps)
    _compare(packed, _trained(tmp_path / "plain", config, False, **steps))
    with pytest.raises(_Crash):
        _trained(tmp_path / "broken", config, True, stop_at=4, **steps)
    again = _trained(tmp_path / "broken", config, True, **steps)
    _assert_equal(again, packed)


@pytest.mark.slow
def test_a_run_of_xlnet_with_dropout_goes_on_where_it_stopped(tmp_path):
    config = XLNET.replace(dropout=0.2, dropatt=0.1)
    steps = dict(train_steps=4, save_steps=2, iterations=2)
    whole = _trained(tmp_path / "whole", config, True, **steps)
    with pytest.raises(_Crash):
        _trained(tmp_path / "broken", config, True, stop_at=4, **steps)
    again = _trained(tmp_path / "broken", config, True, **steps)
    _assert_equal(again, whole)


@pytest.mark.slow
@pytest.mark.parametrize("config", [MODERN, XLNET], ids=["modernbert", "xlnet"])
def test_a_compiled_packed_run_is_the_padded_one(config, tmp_path):
    steps = dict(train_steps=2, save_steps=0, iterations=2)
    plain = _trained(tmp_path / "plain", config, False, **steps)
    packed = _trained(
        tmp_path / "packed", config, True, jit_compile=True, **steps
    )
    _compare(packed, plain)


@pytest.mark.slow
def test_a_packed_step_of_xlnet_changes_weights_as_a_padded_one(tmp_path):
    steps = dict(train_steps=1, save_steps=0, iterations=1, warmup=0)
    packed, _ = _trained(tmp_path / "packed", XLNET, True, **steps)
    plain, _ = _trained(tmp_path / "plain", XLNET, False, **steps)
    start, _ = _trained(tmp_path / "start", XLNET, False, rate=1e-12, **steps)
    still = 0
    for a, b, before in zip(packed, plain, start, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)
        still += int(np.abs(b - before).max() < 1e-6)
    assert still == 1  # mask_emb, which fine-tuning never reads
