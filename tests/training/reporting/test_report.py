"""Lines of the start and the end of a run."""

import time
from types import SimpleNamespace

from training.reporting import report
from training.run_options import OptimizerOptions


def test_what_lies_between_loops_is_no_part_of_their_speed(monkeypatch):
    """An evaluation of 98 s before a loop of 10 steps in 2 s."""
    lines, now = [], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = report.Progress("lines", 0, 30, lines.append)
    for step in (10, 20):
        now[0] += 100
        speed = progress.update(step, {"loss": 1.0}, 600.0, 0.5, 2.0)
        assert speed == {
            "tokens_per_second": 300.0,
            "steps_per_second": 5.0,
            "host_wait_fraction": 0.25,
        }
    # The next evaluation takes its time, too.
    assert lines[1].endswith("300 tokens/s | wait 25.0% | ETA 0:01:40")


def test_cost_is_in_device_days():
    """Half the run in this start, at two seconds a step, on three devices."""
    learner = SimpleNamespace(split=SimpleNamespace(replicas=3))
    state = SimpleNamespace(start_step=7200, learner=learner)
    assert report.cost_line(14400, state, 14400.0) == (
        "cost: 14,400 steps x 2 s x 3 device(s) = 1 device-days"
    )


def test_the_line_of_the_optimizer_names_it():
    for options, name in (
        ({"weight_decay": 0.01}, "AdamW, rate 1e-05"),
        ({}, "Adam (bias-corrected), "),
        ({"optimizer": "stable_adamw"}, "StableAdamW, "),
        ({"optimizer": "stable_adamw", "weight_decay": 0.1}, "StableAdamW, "),
    ):
        line = report._optimizer_line(OptimizerOptions(**options))
        assert line.startswith(f"optimizer    {name}"), line
    assert line.endswith("decay 0.1, epsilon 1e-08, clipped at 1")
