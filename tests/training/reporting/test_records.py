"""The loss log, run.json, the loss scale and the memory estimate."""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import XLNetConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads import cluster_losses
from training.jobs.pretrain_options import PretrainOptions
from training.optim.loss_scale import GROWTH_STEPS, LossScale
from training.optim.optimizer import AdamW, build_optimizer
from training.optim.schedules import Schedule
from training.optim.variable_groups import build_groups
from training.reporting import loss_log, run_record
from training.reporting.evaluation import _assemble
from training.reporting.loss_log import LossLog
from training.reporting.memory_estimate import activation_bytes, logit_count
from training.run_options import OptimizerOptions
from training.step import guards


def test_the_log_is_cut_to_the_restored_step(tmp_path):
    log = LossLog(str(tmp_path), 0)
    rows = np.array([[1.5, 0.1], [1.25, 0.1], [1 / 3, 0.1]], np.float32)
    log.append(1, ["loss", "rate"], rows)
    log.append(4, ["loss", "rate"], rows)
    with open(log.path, "a") as f:
        f.write("7\t0.12")  # killed while writing
    LossLog(str(tmp_path), 4).append(5, ["loss", "rate"], rows[:1])
    names, found = loss_log.read(str(tmp_path))
    assert names == ["loss", "rate"]
    assert found[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert np.float32(found[2, 1]) == np.float32(1 / 3)
    with pytest.raises(UserError, match="columns"):
        LossLog(str(tmp_path), 4).append(5, ["loss"], rows[:, :1])
    # A run that starts anew leaves nothing of an earlier one.
    LossLog(str(tmp_path), 0)
    assert (tmp_path / "losses.tsv").read_text() == ""


def test_changed_facts_are_refused_or_noted(tmp_path):
    folder = str(tmp_path)
    arguments = ({"a": 1}, {"data": "x", "seed": 1}, {"replicas": 1})
    assert run_record.update(folder, *arguments, resuming=False) == []
    must, should = {"data": "x", "seed": 1}, {"replicas": 4}
    notes = run_record.update(folder, {}, must, should, resuming=True)
    assert len(notes) == 1 and "`replicas` wanted 4, found 1" in notes[0]
    with pytest.raises(UserError, match="`data` wanted y, found x"):
        run_record.update(folder, {}, {"data": "y"}, {}, resuming=True)
    # Without a checkpoint there is nothing to stay equal to.
    run_record.update(folder, {}, {"data": "y"}, {}, resuming=False)


def test_a_resumed_run_keeps_its_objective(tmp_path):
    def start(folder, resuming=True, flags=None, **what):
        must = PretrainOptions("records", **what).must_match()
        return run_record.update(
            str(folder), flags or {}, must, {}, resuming=resuming
        )

    start(tmp_path, resuming=False, target_order="forward")
    with pytest.raises(UserError, match="`target_order` wanted random, found"):
        start(tmp_path)
    start(tmp_path, target_order="forward")
    # An older run.json lacks what was not given.
    old, path = tmp_path / "old", tmp_path / "old" / "run.json"
    old.mkdir()
    path.write_text('{"must_match": {"data": "x"}, "starts": [{}]}')
    for name, value, found in (
        ("mlm_stream", "query", "content"),
        ("resample_targets", True, False),
    ):
        with pytest.raises(UserError, match=f"`{name}` wanted .*found {found}"):
            start(old, **{name: value})
    notes = run_record.update(
        str(old), {}, {}, {"min_batch_size": 4}, True, write=False
    )
    assert "`min_batch_size` wanted 4, found 0: the run continues" in notes[0]
    start(old)
    # What it was read with stands among its flags.
    path.write_text('{"flags": {"resample_targets": true}, "starts": [{}]}')
    start(old, resample_targets=True)


def test_loss_scale_skips_an_overflow_and_grows_later():
    options = OptimizerOptions(learning_rate=0.1, clip=0.0)
    variables = {"model/lm_loss/bias": tf.Variable([1.0, 2.0])}
    optimizer = AdamW(
        options,
        Schedule(options, 10),
        variables,
        build_groups(variables, 1, options),
    )
    scale = LossScale(8.0)
    step = optimizer.step
    scale.apply(optimizer, [tf.constant([1.0, 1.0])], tf.constant(np.inf), step)
    step.assign_add(1)
    assert variables["model/lm_loss/bias"].numpy().tolist() == [1.0, 2.0]
    assert float(scale.scale) == 4.0
    scale.apply(optimizer, [tf.zeros([2])], tf.constant(0.0), step)
    assert (float(scale.scale), int(scale.good_steps)) == (4.0, 1)
    scale.good_steps.assign(GROWTH_STEPS - 1)
    scale.apply(optimizer, [tf.constant([1.0, 1.0])], tf.constant(1.4), step)
    assert variables["model/lm_loss/bias"].numpy()[0] < 1.0
    assert float(scale.scale) == 8.0
    assert float(scale.scale_loss(tf.constant(3.0)) * scale.inverse()) == 3.0


def test_outputs_come_in_input_order_once_each():
    rows = [
        {
            "logits": np.array([[3.0], [1.0], [9.0]]),
            "batch/example_index": np.array([3, 1, 0]),
            "batch/example_weight": np.array([1.0, 1.0, 0.0]),
            "batch/label_ids": np.array([13, 11, 99]),
        },
        {
            "logits": np.array([[0.0, 7.0], [2.0, 7.0], [9.0, 9.0]]),
            "batch/example_index": np.array([0, 2, 0]),
            "batch/example_weight": np.array([1.0, 1.0, 0.0]),
            "batch/label_ids": np.array([10, 12, 99]),
        },
    ]
    result = _assemble({}, rows, ("label_ids",))
    assert result.indices.tolist() == [0, 1, 2, 3]
    assert result.labels["label_ids"].tolist() == [10, 11, 12, 13]
    # The first batch was shorter: its rows are padded with zeros.
    assert result.predictions["logits"].tolist() == [
        [0, 7],
        [1, 0],
        [2, 7],
        [3, 0],
    ]
    rows[1]["batch/example_index"][0] = 3
    with pytest.raises(UserError, match="3 came twice"):
        _assemble({}, rows, ("label_ids",))


def test_recomputing_layers_needs_less_and_rows_scale_the_estimate():
    config = XLNetConfig.base(mem_len=384)
    whole = activation_bytes(config, 4, 512, 85, 4, False)
    less = activation_bytes(config, 4, 512, 85, 4, True)
    assert less < whole / 4
    assert activation_bytes(config, 8, 512, 85, 4, False) == 2 * whole
    assert activation_bytes(config, 4, 512, 85, 2, False) < whole


def test_logits_of_an_adaptive_softmax_are_those_that_are_made():
    plain = TransformerXLConfig(1000, 8, 1, 2, 4, 12)
    assert logit_count(plain, 600, None) == 600 * 1000
    assert logit_count(plain, 600, 50) == 50 * 1000
    clusters = plain.replace(cutoffs=(100, 300))
    # The head has an entry per tail; the tails hold 200 and 700 ids.
    chunk = cluster_losses.chunk_rows(700)
    rows = 2 * chunk
    assert logit_count(clusters, rows, None) == rows * 102 + chunk * 700
    assert logit_count(clusters, 600, 50) == 50 * (102 + 700)
    assert logit_count(XLNetConfig.base(), 4, None) == 4 * 32000


def _adam(**options):
    options = OptimizerOptions(learning_rate=0.1, clip=0.0, **options)
    variables = {"model/lm_loss/bias": tf.Variable([1.0, 2.0])}
    optimizer = build_optimizer(
        options,
        Schedule(options, 10**6),
        variables,
        build_groups(variables, 1, options),
    )
    return optimizer, variables["model/lm_loss/bias"]


@pytest.mark.parametrize("kind", ["adamw", "stable_adamw"])
def test_steps_with_an_overflow_are_no_updates_to_adam(kind):
    """The first of them are left out nearly always: the scale begins high."""

    def trained(*norms):
        optimizer, weights = _adam(optimizer=kind, weight_decay=0.0)
        scale, found = LossScale(), []
        for norm in norms:
            gradients = [tf.constant([0.5, -0.25])]
            step = optimizer.step.read_value()
            scale.apply(optimizer, gradients, tf.constant(norm), step)
            optimizer.step.assign_add(1)
            found.append(weights.numpy().tolist())
        return found, scale

    wanted, _ = trained(1.0, 1.0)
    found, scale = trained(np.inf, np.inf, 1.0, np.inf, 1.0)
    assert [found[i] for i in (2, 4)] == [pytest.approx(w) for w in wanted]
    assert int(scale.skipped) == 3


def test_a_norm_that_is_never_finite_ends_the_run():
    """A finite loss would go on for ever without training anything."""
    names = ["loss", "gradient_norm"]
    rows = np.array([[2.5, 1.0], [2.5, np.nan]], np.float32)
    scale = LossScale(2.0)
    run = types.SimpleNamespace(
        learner=types.SimpleNamespace(loss_scale=scale),
        checkpoints=types.SimpleNamespace(latest=lambda: "m-4"),
    )
    guards.check_finite(rows, names, 5, run)  # left out, and the scale falls
    scale.scale.assign(1.0)
    with pytest.raises(UserError, match="gradient_norm is nan at step 6 .*m-4"):
        guards.check_finite(rows, names, 5, run)
    guards.check_finite(rows[:1], names, 5, run)
