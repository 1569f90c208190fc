"""Synthetic batches and the FLOP counts, by hand for toy sizes."""

import importlib
import os
import sys
import types

import numpy as np
import pytest

from benchmarks.compare import flops
from benchmarks.systems import workloads
from benchmarks.systems.workloads import Workload
from common.contract import schema
from modeling.encoders.modernbert.config import ModernBertConfig

TINY = Workload(
    layers=2,
    batch=3,
    length=12,
    memory=5,
    predict=4,
    vocab=50,
    width=8,
    heads=2,
    inner=16,
)


def test_batches_have_the_fields_of_the_schema():
    sizes = {"B": 3, "T": 12, "P": 4}
    batch = workloads.pretrain_batch(TINY)
    assert set(batch) == set(schema.PRETRAIN_BATCH)
    for name, field in schema.PRETRAIN_BATCH.items():
        shape = tuple(sizes[s] for s in field.shape.split())
        assert batch[name].shape == shape, name
        assert batch[name].dtype == field.dtype, name
    batch = workloads.finetune_batch(TINY)
    assert set(batch) == {*schema.FINETUNE_BATCH, "label_ids"}


def test_targets_are_distinct_and_masks_hide_them():
    batch = workloads.pretrain_batch(TINY)
    masks = workloads.explicit_masks(batch, TINY.length)
    for row in range(TINY.batch):
        positions = batch["target_positions"][row]
        assert len(set(positions)) == TINY.predict
        assert masks["is_target"][row].sum() == TINY.predict
        # A target does not see itself; a token of context does.
        diagonal = np.diag(masks["perm_mask"][row])
        np.testing.assert_array_equal(diagonal, masks["is_target"][row])
    # The reuse part never sees the second part.
    assert masks["perm_mask"][:, :6, 6:].all()
    np.testing.assert_array_equal(
        masks["target_mapping"].argmax(-1), batch["target_positions"]
    )


def test_kinds_are_checked():
    with pytest.raises(ValueError, match="kind"):
        Workload(kind="sing")


def test_peers_have_as_many_threads_as_ours(monkeypatch):
    """Under `taskset` PyTorch had a thread for each core of the machine."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7})
    asked = []
    torch = types.SimpleNamespace(set_num_threads=asked.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    name = "benchmarks.systems.torch_setup"
    monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.import_module(name).wrapper({})
    monkeypatch.delitem(sys.modules, name)
    assert asked == [3]
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
    assert workloads.threads() == os.cpu_count()


def test_forward_flops_by_hand():
    # T 12, D = NH = 8, F 16, keys 12, positions 24.
    project = 4 * 12 * 64
    attend = 2 * 12 * 8 * (2 * 12 + 24)
    feed_forward = 4 * 12 * 8 * 16
    keys = 4 * 12 * 64
    table = 2 * 24 * 64
    layer = 3 * (project + attend + feed_forward + keys) + table
    assert flops.forward(TINY) == 2 * layer
    assert flops.finetune_step(TINY) == 3 * 2 * layer - 2 * table


def test_pretrain_flops_leave_out_what_nobody_reads():
    # Keys 17, positions 29; the content stream of layer 2 of 2 is not needed.
    def stream(rows):
        return 4 * rows * 64 + 2 * rows * 8 * (2 * 17 + 29) + 4 * rows * 8 * 16

    table = 2 * 2 * 29 * 64
    keys = 4 * 17 * 64
    memory = 4 * 5 * 64
    first = 3 * (3 * (stream(4) + stream(12) + keys) + table)
    last = 3 * (3 * (stream(4) + keys) + table)
    no_gradient = 2 * (table + 3 * memory)
    head = 3 * 2 * 3 * 4 * 8 * 50
    assert flops.pretrain_step(TINY) == first + last - no_gradient + head


def test_language_model_flops_leave_out_what_lies_ahead():
    # Keys 17; T 12 rows see 5 + 1, .., 5 + 12 of them.
    w = TINY.replace(kind="language_model")
    pairs = sum(5 + i + 1 for i in range(12))
    rows = 4 * 12 * 64 + 3 * 2 * pairs * 8 + 4 * 12 * 8 * 16
    keys, table = 4 * 17 * 64, 2 * 17 * 64
    layer = 3 * (3 * (rows + keys) + table)
    no_gradient = table + 3 * 4 * 5 * 64
    softmax = 3 * 2 * 3 * 12 * 8 * 50
    assert flops.of(w) == 2 * (layer - no_gradient) + softmax
    adaptive = flops.of(w.replace(cutoffs=[10, 30]))  # as JSON gives them
    assert 0.5 * softmax < flops.of(w) - adaptive < 0.7 * softmax


def test_encoder_flops_by_hand():
    w = TINY.replace(kind="inference", model_type="bert", batch=3)
    project, feed_forward = 4 * 2 * 12 * 64, 2 * 2 * 12 * 8 * 16
    layer = project + 2 * 2 * 12 * 12 * 8 + feed_forward
    bert = 3 * (2 * layer + 2 * 64)
    assert flops.of(w) == bert
    assert flops.of(w.replace(kind="finetune")) == 3 * bert
    mapping = 3 * 2 * 12 * workloads.ALBERT_EMBEDDING * 8
    assert flops.of(w.replace(model_type="albert")) == bert + mapping
    assert flops.of(w.replace(kind="lengths")) == 0


def test_modernberts_sizes_are_the_configurations():
    made = ModernBertConfig(50, 8, 2, 2, 16)
    assert made.local_window == workloads.MODERNBERT_WINDOW
    assert made.global_every == workloads.MODERNBERT_GLOBAL


def test_local_layers_need_the_near_pairs_only(monkeypatch):
    monkeypatch.setattr(workloads, "MODERNBERT_WINDOW", 6)
    w = TINY.replace(model_type="modernbert")
    near = sum(abs(i - j) <= 3 for i in range(12) for j in range(12))
    assert [flops.pairs_seen(w, i) for i in range(4)] == [144, near, near, 144]
    assert flops.pairs_seen(w.replace(length=3), 1) == 9


def test_words_of_a_language_model_are_as_frequent_as_words():
    w = TINY.replace(kind="language_model", batch=400, vocab=1000)
    batch = workloads.lm_batch(w)
    assert set(batch) == set(schema.LANGUAGE_MODEL_BATCH)
    ids = batch["input_ids"]
    np.testing.assert_array_equal(ids[:, 1:], batch["target_ids"][:, :-1])
    assert 0 <= ids.min() and ids.max() < 1000
    # ln(11) / ln(1000) of them are the first ten.
    assert (ids < 10).mean() == pytest.approx(0.347, abs=0.03)


def test_base_width_has_the_known_size():
    # About 0.40 TFLOP for the sizes of the main comparison.
    assert flops.of(Workload()) / 1e12 == pytest.approx(0.40, abs=0.03)
    assert flops.of(Workload(kind="peak")) == 0
