"""Kinds of operations, the bound of the matmuls, the table."""

import pytest

from benchmarks.compare import profiles

OPERATIONS = {
    "_MklMatMul": [4, 30.0],
    "BatchMatMulV2": [2, 10.0],
    "ProcessAsync": [3, 7.0],
    "Cast": [5, 1.0],
    "NeverSeen": [1, 2.0],
}


def test_types_are_summed_by_kind_the_slowest_first():
    found = profiles.by_kind(OPERATIONS)
    assert list(found.items()) == [
        (profiles.MATMULS, [6, 40.0]),
        ("fused kernels", [3, 7.0]),
        (profiles.OTHER, [1, 2.0]),
        ("casts", [5, 1.0]),
    ]


def test_no_type_is_of_two_kinds():
    types = [t for kind in profiles.KINDS.values() for t in kind.split()]
    assert len(types) == len(set(types))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_MklEinsum", profiles.MATMULS),
        ("_FusedMatMul", profiles.MATMULS),
        ("_MklNativeFusedBatchMatMulV2", profiles.MATMULS),
        ("AddV2", "elementwise and sums"),
        ("_MklTranspose", "transposes"),
        ("ResourceApplyAdam", profiles.OTHER),
    ],
)
def test_variants_of_a_type_are_of_its_kind(name, kind):
    assert list(profiles.by_kind({name: [1, 2.0]})) == [kind]


def test_the_bound_is_the_share_of_the_peak_while_matmuls_run():
    found = profiles.bound({"operations": OPERATIONS, "of_peak": 0.6})
    assert found["matmul_share"] == pytest.approx(0.8)
    assert found["of_peak_in_matmuls"] == pytest.approx(0.75)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"operations": {}, "of_peak": 0.5},
        {"operations": OPERATIONS, "of_peak": None},
        {"operations": {"Cast": [1, 2.0]}, "of_peak": 0.5},
    ],
)
def test_without_trace_peak_or_matmul_there_is_no_bound(row):
    assert profiles.bound(row) is None


def test_the_table_has_every_kind_and_the_bound():
    text = profiles.text(
        {"system": "ours", "operations": OPERATIONS, "of_peak": 0.6}
    )
    assert "ours: 50.0 ms of thread time in a step" in text
    assert "| matmuls | 6 | 40.0 | 80.0% |" in text
    assert "| casts | 5 | 1.0 | 2.0% |" in text
    assert "in the matmuls 75% of the matmul peak" in text


def test_a_system_without_a_trace_has_no_table():
    assert profiles.text({"system": "torch", "operations": {}}) == ""
