"""Lines of the start and the end of a run."""

from types import SimpleNamespace

from training.reporting import report


def test_cost_is_in_device_days():
    """Half the run in this start, at two seconds a step, on three devices."""
    learner = SimpleNamespace(split=SimpleNamespace(replicas=3))
    state = SimpleNamespace(start_step=7200, learner=learner)
    assert report.cost_line(14400, state, 14400.0) == (
        "cost: 14,400 steps x 2 s x 3 device(s) = 1 device-days"
    )
