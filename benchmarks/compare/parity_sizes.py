"""Sizes of the parity check: all different, base width of heads."""

from benchmarks.systems.workloads import Workload

PARITY = Workload(
    layers=3,
    batch=4,
    length=48,
    memory=20,
    predict=10,
    vocab=517,
    width=192,
    heads=3,
    inner=320,
    dropout=0.0,
)
