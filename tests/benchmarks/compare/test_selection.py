"""Which systems take part: wrong names are refused before anything runs."""

import pytest

from benchmarks.compare import __main__ as command
from benchmarks.compare import harness, selection, suites
from common.errors import UserError
from flags.bench_flags import BenchOptions


def test_only_the_named_systems_take_part():
    options = BenchOptions(systems=("Model Garden graph", "ours"))
    ((_, systems),) = suites.pretrain(options)
    names = [s.name for s in selection.of(systems, suites.OURS, options)]
    assert names == ["ours", "Model Garden graph"]
    assert selection.of(systems, suites.OURS, BenchOptions()) == systems


@pytest.mark.parametrize(
    "names, of, message",
    [
        (
            ("ours", "ours bfloat17"),
            ("pretrain",),
            "some of ours, ours bfloat16, .*; found ours bfloat17$",
        ),
        (("theirs",), ("scaling",), "suite 'scaling': ours; found theirs"),
        (
            ("tf_keras graph",),
            ("language_model", "pretrain"),
            "some of the suite 'pretrain': ours, .*; found tf_keras graph",
        ),
        (("ours",), ("pretrain", "startup"), "nothing in the suite 'startup'"),
    ],
)
def test_other_names_are_refused_before_the_start(
    names, of, message, monkeypatch
):
    def compare(*unused):
        raise AssertionError("it ran")

    monkeypatch.setattr(harness, "compare", compare)
    options = BenchOptions(systems=names, suites=of, quick=True)
    with pytest.raises(UserError, match=message):
        command.run(options)


def test_a_profile_of_suites_that_are_not_traced_is_refused():
    options = BenchOptions(suites=("startup",), quick=True, profile=True)
    with pytest.raises(UserError, match="--profile: wanted .* found startup"):
        command.run(options)


def test_a_comparison_without_the_named_systems_is_left_out(monkeypatch):
    """The words of `language_model` have no plain model."""
    seen = []

    def compare(systems, workload, rounds, profiled):
        del rounds, profiled
        seen.append(([s.name for s in systems], workload.cutoffs))
        return [harness.Result(s.name, error="toy") for s in systems]

    monkeypatch.setattr(harness, "compare", compare)
    options = BenchOptions(
        systems=("tf_keras graph",), suites=("language_model",), quick=True
    )
    command.run(options)
    assert [(names[0], cut) for names, cut in seen] == [("tf_keras graph", ())]
