"""Cost formulas against values computed by hand."""

import dataclasses

import pytest

from benchmarks.tpu import costs as tpu_costs
from common.errors import UserError

TOY = tpu_costs.Chip(
    peak_flops=200.0,
    hbm_bytes=64.0,
    hbm_bandwidth=20.0,
    link_bandwidth=8.0,
    cores=2,
)


@dataclasses.dataclass(frozen=True)
class Program:
    flops: float
    bytes_accessed: float
    optimal_seconds: float


def test_roofline_takes_the_slower_side():
    # One of two cores: 100 FLOP/s and 10 bytes/s.
    assert tpu_costs.roofline(300.0, 20.0, TOY) == 3.0
    assert tpu_costs.roofline(100.0, 50.0, TOY) == 5.0


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (0.7, (0.7, "compiler")),
        # -1 s for each instruction without a price; the roofline is 0.5 s.
        (-1.3, (0.7, "compiler")),
        (-0.4, (0.6, "compiler")),
        (0.0, (0.5, "roofline")),
        (-99.0, (0.5, "roofline")),
    ],
)
def test_compiler_estimate_and_its_unpriced_instructions(estimate, expected):
    seconds, source = tpu_costs.compute_seconds(50.0, 1.0, estimate, TOY)
    assert (pytest.approx(seconds), source) == expected


def test_a_program_whose_scalars_alone_have_a_price_takes_the_roofline():
    # Whole seconds would make it 1.0007 s, ten times what it can take.
    found = tpu_costs.compute_seconds(10.0, 1.0, -0.9993, TOY)
    assert found == (pytest.approx(0.1), "roofline")


def test_all_reduce_of_a_ring():
    # 2 * 3/4 * 16 bytes at 4 bytes/s one way.
    assert tpu_costs.all_reduce_seconds(16.0, 4, TOY) == 6.0
    assert tpu_costs.all_reduce_seconds(16.0, 1, TOY) == 0.0


def test_step_adds_its_parts():
    first = Program(40.0, 2.0, 0.5)
    full = Program(50.0, 32.0, -3.0)
    time = tpu_costs.step_time(first, full, 16.0, 4, TOY)
    assert time == tpu_costs.StepTime(0.5, "compiler", 3.0, 6.0)
    assert time.total == 9.5
    alone = tpu_costs.step_time(first, None, 16.0, 1, TOY)
    assert alone.total == 0.5


def test_days():
    assert tpu_costs.days(0.432, 500_000) == pytest.approx(2.5)


@pytest.mark.parametrize("bound", [0, 1, 2, 3, 16, 17, 100])
def test_search_finds_the_bound_and_never_exceeds_it_twice(bound):
    tried = []

    def fits(n):
        tried.append(n)
        return n <= bound

    assert tpu_costs.largest_fitting(fits) == bound
    assert len(tried) == len(set(tried))


def test_search_stops_at_its_limit():
    assert tpu_costs.largest_fitting(lambda n: True, limit=12) == 12


def test_chips_hold_what_the_tables_of_the_maker_say():
    v3 = tpu_costs.CHIPS["v3"]
    assert v3.hbm_bytes / v3.cores == 16 * 2**30
    assert set(tpu_costs.CHIPS) == {"v3", "v4", "v5e", "v6e"}


def test_cores_are_those_of_whole_chips_and_hosts():
    units = tpu_costs.units
    assert [units(cores, 8, "host") for cores in (1, 8, 24)] == [1, 1, 3]
    with pytest.raises(UserError, match="a host has 8 cores .*, 8 or 16$"):
        units(12, 8, "host")
