"""What a step costs, from two runs."""

import pytest

from studies.runner.speeds import Speed, measured


def result(steps, other=0.0):
    """Of a run: 3 seconds per step on the clock, 1.5 of the cores."""
    return {"seconds": 2 + 3 * steps + other, "cpu_seconds": 5 + 1.5 * steps}


def test_seconds_of_the_clock_and_of_the_cores():
    speed = measured(result(10), result(30), 10)
    assert speed == Speed(pytest.approx(2.0), 3.0, 1.5)


def test_other_work_changes_no_pace():
    """It ran beside the shorter run, and a step looks cheap on the clock."""
    speed = measured(result(10, other=40.0), result(30), 10)
    assert (speed.step, speed.cpu, speed.pace) == (1.0, 1.5, 1.5)


def test_a_system_that_tells_no_cpu_seconds():
    short, long = ({"seconds": 2.0 + 3 * n} for n in (10, 30))
    speed = measured(short, long, 10)
    assert speed.cpu is None and speed.pace == speed.step == 3.0


def test_a_longer_run_that_took_less_time():
    speed = measured(result(10), result(0), 10)
    assert speed.step > 0 and speed.start >= 0


def test_steps_in_the_time_of_another_kind():
    slow, fast = Speed(0.0, 9.0, 3.0), Speed(0.0, 1.0, 1.5)
    assert slow.over(fast) == 2.0 and fast.over(slow) == 0.5
    # One of them is not known in CPU seconds: both by the clock.
    assert slow.over(Speed(0.0, 3.0)) == 3.0
