"""Which systems and sizes the suites compare."""

import numpy as np
import pytest

from benchmarks import extra_suites, lengths, suites
from common.errors import UserError
from flags.bench_flags import SUITES, BenchOptions


def test_every_suite_exists():
    assert {*suites.SUITES, *extra_suites.SUITES} == set(SUITES)


@pytest.mark.parametrize("name", list(suites.SUITES))
def test_ours_is_the_reference_and_names_are_unique(name):
    for quick in (True, False):
        options = BenchOptions(quick=quick)
        for workload, systems in suites.SUITES[name](options):
            assert systems[0].name == "ours"
            names = [s.name for s in systems]
            assert len(set(names)) == len(names)
            assert workload.layers <= options.layers


def test_torch_joins_only_with_an_environment(tmp_path):
    python = tmp_path / "python"
    python.touch(mode=0o755)
    assert not suites.torch_systems(BenchOptions())
    (system,) = suites.torch_systems(BenchOptions(torch_python=str(python)))
    assert system.python == str(python)


def test_only_the_named_systems_take_part():
    options = BenchOptions(systems=("Model Garden graph", "ours"))
    ((_, systems),) = suites.pretrain(options)
    names = [s.name for s in suites.chosen(systems, options)]
    assert names == ["ours", "Model Garden graph"]
    assert suites.chosen(systems, BenchOptions()) == systems
    with pytest.raises(UserError, match="ours, ours bfloat16, .*found theirs"):
        suites.chosen(systems, BenchOptions(systems=("theirs",)))


@pytest.mark.parametrize(
    "change",
    [{"suites": ("sing",)}, {"rounds": 0}, {"torch_python": "/no/python"}],
)
def test_options_are_checked(change):
    with pytest.raises(UserError):
        BenchOptions(**change)


def test_lengths_have_the_medians_they_claim():
    for name, (median, _) in lengths.DISTRIBUTIONS.items():
        drawn = lengths.draw(name, 4000)
        assert drawn.min() >= lengths.SHORTEST
        assert abs(np.median(drawn) / median - 1) < 0.1


def test_a_failing_command_is_a_row(monkeypatch):
    ((_, text, rows),) = extra_suites._apart("benchmarks.no_such_module", [])
    assert text.startswith("failed") and rows[0]["error"]
