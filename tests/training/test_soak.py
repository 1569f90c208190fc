"""Killed processes: three of the soak's kills, and one of two workers."""

import pytest

from benchmarks.soak import killing, two_workers

pytestmark = pytest.mark.slow


def test_three_kills_leave_no_trace(tmp_path):
    outcome = killing.soak(str(tmp_path), kills=3, steps=80, seed=2)
    assert outcome.kills == 3 and outcome.starts == 4
    assert outcome.same_log and outcome.same_weights


def test_a_killed_worker_ends_the_other_and_both_go_on(tmp_path):
    outcome = two_workers.soak(str(tmp_path), 80, victim=1, timeout=240)
    assert outcome.survivor_status == 1
    assert outcome.survivor_line.startswith("error: another process")
    assert outcome.same_log and outcome.same_weights
