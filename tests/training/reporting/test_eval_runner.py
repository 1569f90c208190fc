"""The log of evaluations, from which early stopping counts."""

import json

import pytest

from training.reporting.eval_runner import EvaluationLog

ROWS = (
    {"step": 2, "loss": 0.5, "accuracy": 0.25},
    {"step": 4, "loss": 0.75, "accuracy": 0.5},
    {"step": 6, "loss": float("nan"), "accuracy": 0.5},
    {"step": 8, "loss": 0.625, "accuracy": 0.375},
)


def log_of(folder, start_step):
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (folder / "evaluations.jsonl").write_text(text)
    return EvaluationLog(str(folder), start_step)


@pytest.mark.parametrize(
    ("metric", "higher", "since"),
    [("loss", False, 3), ("accuracy", True, 2), ("f2", True, 4)],
)
def test_patience_counts_by_the_metric_that_is_asked_for(
    tmp_path, metric, higher, since
):
    """A run that goes on with another --best_metric counts by that one."""
    assert log_of(tmp_path, 8).since_best(metric, higher) == since


def test_patience_counts_up_to_the_step_that_a_run_goes_on_from(tmp_path):
    assert log_of(tmp_path, 6).since_best("loss", False) == 2
    log = log_of(tmp_path, 0)
    assert log.since_best("loss", False) == 0
    log.add(2, {"loss": 1.0})
    log.add(4, {"loss": 1.5})
    assert log.since_best("loss", False) == 1
