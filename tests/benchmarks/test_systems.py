"""Ours and the Model Garden's systems run every kind of workload."""

import types

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from benchmarks import long_rows
from benchmarks.compare import harness, profiles, suites
from benchmarks.compare.harness import System
from benchmarks.systems import ours as system_ours
from benchmarks.systems.workloads import Workload
from flags.bench_flags import BenchOptions
from modeling.models import half_precision

TINY = Workload(
    layers=2,
    batch=2,
    length=16,
    memory=8,
    predict=3,
    vocab=60,
    width=24,
    heads=2,
    inner=40,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["pretrain", "finetune", "inference", "lengths", "embed"]
)
def test_every_kind_gives_finite_numbers(kind, tmp_path):
    lengths = tmp_path / "lengths.txt"
    np.savetxt(lengths, [5, 16, 30, 9], fmt="%d")
    workload = TINY.replace(kind=kind, lengths=str(lengths))
    systems = [
        System("ours", "benchmarks.systems.ours"),
        System("Model Garden", "benchmarks.systems.garden"),
    ]
    if kind == "embed":  # the Garden's model has no such output
        systems.pop()
    results = harness.compare(systems, workload, 1)
    assert {r.error for r in results} == {None}
    assert all(np.isfinite(r.losses).all() for r in results)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["bert", "albert", "modernbert"])
def test_every_encoder_trains_and_answers(model_type, monkeypatch):
    monkeypatch.setattr("benchmarks.systems.workloads.ALBERT_EMBEDDING", 6)
    for kind in ("finetune", "inference"):
        workload = TINY.replace(kind=kind, model_type=model_type)
        step = system_ours.build(workload, {})
        assert np.isfinite([step(), step()]).all()


@pytest.mark.long
def test_inference_with_weights_in_bfloat16(monkeypatch):
    kept = []

    def read(build, model):
        kept.append(half_precision.in_bfloat16(build, model))
        return kept[-1]

    monkeypatch.setattr(system_ours, "in_bfloat16", read)
    workload = TINY.replace(kind="inference", model_type="bert")
    losses = []
    for options in ({}, suites.STORED):
        # The same weights: the first `build` of a process sets this seed.
        tf_keras.utils.set_random_seed(workload.seed)
        losses.append(system_ours.build(workload, options)())
    np.testing.assert_allclose(*losses, rtol=0.02)
    assert losses[0] != losses[1]
    (model,) = kept
    types = {v.dtype for v in model.variables if v.shape.rank > 1}
    assert types == {tf.bfloat16}
    with pytest.raises(ValueError, match="is of inference, received kind"):
        system_ours.build(TINY.replace(kind="finetune"), suites.STORED)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["bert", "xlnet"])
def test_batches_of_real_lengths_give_the_same_answers(model_type, tmp_path):
    lengths = tmp_path / "lengths.txt"
    np.savetxt(lengths, [5, 16, 30, 9, 2, 3], fmt="%d")
    for kind in ("lengths", "train_lengths"):
        workload = TINY.replace(
            kind=kind, model_type=model_type, lengths=str(lengths), dropout=0.0
        )
        found = []
        for batches in ("padded", "packed"):
            # The same weights: the first `build` of a process sets this seed.
            tf_keras.utils.set_random_seed(workload.seed)
            found.append(system_ours.build(workload, {"batches": batches})())
        np.testing.assert_allclose(*found, atol=1e-4)
        assert np.isfinite(system_ours.build(workload, {})())


@pytest.mark.slow
def test_long_rows_run_and_are_drawn(tmp_path):
    options = BenchOptions(quick=True, layers=2)
    rows = []
    for workload, systems in suites.long_rows(options):
        assert workload.length in (512, 1024)
        small = TINY.replace(
            kind="inference", batch=1, length=32, model_type="bert"
        )
        for system in systems:
            asked = dict(system.options)
            if "segments" in asked:
                asked["segments"] = 16
            assert np.isfinite(system_ours.build(small, asked)())
            rows.append(
                {
                    "system": system.name,
                    "workload": {"length": workload.length},
                    "error": "no room" if len(rows) == 4 else None,
                    "rounds": 3,
                    "median_s": 1.0 + len(rows),
                    "cpu_s": 2.0,
                    "peak_mb": 300.0,
                }
            )
    table = long_rows.numbers(rows)
    assert [line[3] for line in table[1:]] == [
        *("1", "2", "3", "4", "no room", "6")
    ]
    for path in long_rows.draw(table, str(tmp_path)):
        with open(path, "rb") as f:
            assert len(f.read()) > 5000


def test_long_rows_are_drawn_into_a_bucket(tmp_path, monkeypatch):
    """A local folder of the bucket's name was made."""
    table = tmp_path / "long_rows.tsv"
    table.write_text("\t".join(long_rows.COLUMNS) + "\n")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    given = types.SimpleNamespace(
        output_dir="ram://rows", drawn_from=str(table)
    )
    monkeypatch.setattr(long_rows, "FLAGS", given)
    monkeypatch.setattr(long_rows, "draw", lambda *_: ["ram://rows/x"])
    long_rows.main()
    assert not list(home.iterdir())


@pytest.mark.slow
def test_language_models_give_finite_numbers():
    """Ours with an adaptive softmax; the plain Transformer without memory."""
    workload = TINY.replace(kind="language_model", cutoffs=(20, 40))
    systems = [
        System("ours", "benchmarks.systems.ours"),
        System("plain", "benchmarks.systems.lm_keras"),
    ]
    results = harness.compare(systems, workload, 1, systems)
    assert [r.error for r in results] == [None, None]
    for result in results:
        kinds = profiles.by_kind(result.operations)
        assert kinds[profiles.MATMULS][1] > 0
        assert 0.5 * np.log(60) < result.losses[0] < 2 * np.log(60)
