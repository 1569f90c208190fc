"""What the estimate counts of activations, logits, slots and memory."""

import types

import tensorflow as tf

from modeling import XLNetConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads import cluster_losses
from tests.helpers.runs import toy
from tests.training.objectives.toy_objectives import (
    MaskedLanguageModel,
    MeanObjective,
    input_fn,
)
from training.checkpointing.run_state import open_run
from training.reporting.memory_estimate import (
    GIB,
    activation_bytes,
    estimate,
    estimate_lines,
    logit_count,
)
from training.step.batch_split import BatchSplit


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


def test_the_estimate_counts_what_the_objective_has(tmp_path):
    spec = input_fn({"batch_size": 8, "start_step": 0}).element_spec
    options = toy.run_options(tmp_path, train_batch_size=8)
    found = {
        objective.name: estimate(open_run(objective, options).learner, spec)
        for objective in (MaskedLanguageModel(), MeanObjective())
    }
    vocabulary = toy.CONFIG.vocab_size
    assert found["masked_lm"]["logits"] == 3 * 8 * 2 * vocabulary * 4
    assert "logits" not in found["mean"] and "memory" not in found["mean"]
    # Without a query stream the targets keep nothing of their own.
    same = found["masked_lm"]["activations"], found["mean"]["activations"]
    assert same[0] == same[1]


CONFIG = XLNetConfig(
    vocab_size=50, d_model=6, n_layer=2, n_head=2, d_head=3, d_inner=10
)


def learner_of(rows=4, steps=1, averages=False, memory_len=0, **objective):
    """What the estimate reads of a learner with 7 + 15 weights, 15 trained."""
    kernel, frozen = tf.zeros([3, 5]), tf.zeros([7])
    values = {
        "config": CONFIG.with_memory(memory_len or None),
        "query_stream": False,
        "recompute_layers": False,
        "loss_chunk_size": None,
        "memory_len": memory_len,
        "num_targets": lambda spec: 0,
    }
    return types.SimpleNamespace(
        objective=types.SimpleNamespace(**(values | objective)),
        split=BatchSplit(rows * steps * 2, 2, steps),
        optimizer=types.SimpleNamespace(
            trained=[kernel],
            averages=types.SimpleNamespace(
                by_name={"k": 1} if averages else {}
            ),
        ),
        variables={"a": kernel, "b": frozen},
        model=types.SimpleNamespace(compute_dtype="float16"),
        memory=memory_len or None,
    )


def spec_of(*shape):
    return {"input_ids": tf.TensorSpec(shape, tf.int32)}


def test_frozen_weights_have_no_slots_and_no_gradients():
    plain = estimate(learner_of(), spec_of(4, 8))
    assert plain["weights"] == (15 + 7) * 4
    assert plain["slots"] == 2 * 15 * 4 and plain["gradients"] == 15 * 4
    assert set(plain) == {"weights", "slots", "gradients", "activations"}
    more = estimate(learner_of(steps=3, averages=True), spec_of(4, 8))
    assert more["slots"] == 3 * 15 * 4
    assert more["gradients"] == 2 * 15 * 4  # the sum and one micro-batch's
    # Activations are those of a micro-batch.
    assert more["activations"] == plain["activations"]


def test_options_of_a_choice_are_rows():
    one = estimate(learner_of(), spec_of(4, 8))["activations"]
    assert estimate(learner_of(), spec_of(4, 3, 8))["activations"] == 3 * one
    wanted = activation_bytes(learner_of().objective.config, 4, 8, 0, 2, False)
    assert one == wanted  # float16: two bytes


def test_targets_of_a_second_stream_cost_rows_and_logits():
    with_stream = {"query_stream": True, "num_targets": lambda spec: 5}
    found = estimate(learner_of(**with_stream), spec_of(4, 8))
    config = learner_of().objective.config
    wanted = activation_bytes(config, 4, 8, 5, 2, False)
    assert found["activations"] == wanted
    assert found["logits"] == 3 * 4 * (4 * 5) * 50
    chunked = learner_of(**with_stream, loss_chunk_size=2)
    assert estimate(chunked, spec_of(4, 8))["logits"] == 3 * 4 * 2 * 50
    # Where the number varies, every position may be one.
    varying = learner_of(num_targets=lambda spec: None)
    assert estimate(varying, spec_of(4, 8))["logits"] == 3 * 4 * 32 * 50


def test_memory_is_old_and_new_and_a_copy_on_the_host():
    found = estimate(learner_of(memory_len=9, steps=2), spec_of(4, 8))
    rows = 2 * 4  # of a replica, not of a micro-batch
    assert found["memory"] == 3 * rows * 9 * 6 * 2 * 2
    without = estimate(learner_of(steps=2), spec_of(4, 8))
    assert found["activations"] > without["activations"]  # M more keys


def test_replicas_on_one_processor_add_up(monkeypatch):
    learner, spec = learner_of(), spec_of(4, 8)
    parts = sum(estimate(learner, spec).values())
    for devices, wanted in (
        ([], 2 * parts + int(0.9 * GIB)),
        (["gpu"], parts),
    ):
        monkeypatch.setattr(
            tf.config, "list_physical_devices", lambda kind, d=devices: d
        )
        total, (line,) = estimate_lines(learner, spec)
        assert total == wanted
        assert line.startswith(f"memory       about {total / GIB:.2f} GiB (")
        assert "weights 0.00, slots 0.00, gradients 0.00, activ" in line
