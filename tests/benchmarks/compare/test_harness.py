"""Turns, ratios, failures and tables, on toy systems."""

import numpy as np
import pytest

import common
from benchmarks.compare import harness
from benchmarks.systems.workloads import Workload
from common.errors import UserError

TOY = Workload(kind="toy", seed=5)


def toy(name, **options):
    return harness.System(name, "benchmarks.systems.toy", options)


def test_a_peer_starts_as_its_users_start_it(monkeypatch):
    found = []
    monkeypatch.setattr(common, "ENVIRONMENT", {"OURS": "1"})
    monkeypatch.setenv("OURS", "1")
    monkeypatch.setenv("THEIRS", "2")
    monkeypatch.setattr(
        harness.subprocess, "Popen", lambda *_, env, **more: found.append(env)
    )
    harness.Child(toy("one"), TOY)
    assert "OURS" not in found[0] and found[0]["THEIRS"] == "2"


@pytest.mark.long
def test_systems_take_turns_and_are_compared():
    results = harness.compare(
        [toy("fast", sleep=0.001), toy("slow", sleep=0.1)], TOY, rounds=5
    )
    assert [r.name for r in results] == ["fast", "slow"]
    assert all(len(r.seconds) == 5 and r.error is None for r in results)
    assert results[0].losses == [5.0] * 5
    assert results[0].peak_mb > 1
    assert len(results[0].ready["warm_up_s"]) == 2
    fast, slow = harness.rows("toy", TOY, results, 2.0, {"float32": 400.0})
    assert fast["ratio"] == 1.0
    assert slow["ratio"] > 1
    assert slow["ratio_low"] <= slow["ratio"] <= slow["ratio_high"]
    assert slow["gflop_per_s"] == pytest.approx(2.0 / slow["median_s"])
    assert slow["utilisation_float32"] == pytest.approx(
        slow["gflop_per_s"] / 400.0
    )
    assert slow["of_peak"] == slow["utilisation_float32"]
    assert 1 < slow["import_mb"] <= slow["peak_mb"]
    # An interpreter maps at least one MB of libraries.
    assert 1 < slow["private_mb"] < slow["peak_mb"] - 1
    text = harness.table([fast, slow])
    assert len(text.splitlines()) == 4
    assert len({len(line) for line in text.splitlines()}) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fail_at": 4}, "planted"),
        ({"nan_at": 3}, "loss is nan"),
        ({"fail_build": "no such thing"}, "no such thing"),
    ],
)
def test_a_failing_system_does_not_stop_the_others(options, message):
    good, bad = harness.compare([toy("good"), toy("bad", **options)], TOY, 3)
    assert good.error is None and len(good.seconds) == 3
    assert message in bad.error
    rows = harness.rows("toy", TOY, [good, bad])
    assert message in harness.table(rows)


@pytest.mark.long
def test_a_system_without_tensorflow_has_no_profile():
    system = toy("toy")
    results = harness.compare([system], TOY, 2, [system])
    assert results[0].operations == {}
    assert results[0].error is None and len(results[0].seconds) == 2
    assert results[0].peak_mb > results[0].private_mb > 1


def test_a_child_of_an_older_version_is_sent_what_it_knows():
    sent = harness._changed(TOY.replace(cutoffs=(2, 3)))
    assert sent == {"kind": "toy", "seed": 5, "cutoffs": (2, 3)}


def test_an_interpreter_that_dies_is_reported():
    system = harness.System("gone", "benchmarks.systems.toy", {}, "/bin/false")
    (result,) = harness.compare([system], TOY, 1)
    assert "ended before" in result.error


def test_rounds_are_checked():
    with pytest.raises(UserError, match="rounds"):
        harness.compare([toy("x")], TOY, 0)


def test_ratio_is_the_median_of_rounds_and_its_interval_holds_it():
    reference = np.array([1.0, 2.0, 4.0, 8.0])  # drift cancels
    middle, low, high = harness.ratio(reference * 1.5, reference)
    assert (middle, low, high) == (1.5, 1.5, 1.5)
    noise = np.array([1.0, 1.2, 0.9, 1.1, 1.3])
    middle, low, high = harness.ratio(noise, np.ones(5))
    assert middle == 1.1
    assert 0.9 <= low < middle < high <= 1.3
