"""Ours and the Model Garden's systems run every kind of workload."""

import numpy as np
import pytest

from benchmarks import harness
from benchmarks.harness import System
from benchmarks.workloads import Workload

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
        System("ours", "benchmarks.system_ours"),
        System("Model Garden", "benchmarks.system_garden"),
    ]
    if kind == "embed":  # the Garden's model has no such output
        systems.pop()
    results = harness.compare(systems, workload, 1)
    assert {r.error for r in results} == {None}
    assert all(np.isfinite(r.losses).all() for r in results)
