"""`training.optim.tuning_rates`."""

import re

import pytest

from tests.conftest import ROOT
from training.optim import tuning_rates
from training.run_options import OptimizerOptions


@pytest.mark.parametrize(
    "width, rate", [(16, 1e-3), (256, 1e-3), (258, 1e-4), (768, 3e-5)]
)
def test_a_rate_of_a_tenth_or_less_is_said(width, rate):
    lines = []
    tuning_rates.say_if_low(tuning_rates.of_width(width), width, lines.append)
    assert not lines
    tuning_rates.say_if_low(rate / 9, width, lines.append)
    assert not lines
    tuning_rates.say_if_low(rate / 11, width, lines.append)
    assert len(lines) == 1
    assert f"width {width}: {rate:g} is a rate to begin with" in lines[0]


def test_the_default_is_a_rate_of_released_models():
    """With it a model of D = 192 gets 37 % of TREC right, with 1e-3 81 %."""
    lines = []
    rate = OptimizerOptions().learning_rate
    tuning_rates.say_if_low(rate, 768, lines.append)
    assert not lines
    tuning_rates.say_if_low(rate, 192, lines.append)
    assert lines == [
        "rate         --learning_rate=1e-05 is low for a model of width 192: "
        "0.001 is a rate to begin with"
    ]


def test_the_guide_has_the_rates():
    page = (ROOT / "docs/guides/choosing.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| up to (\d+) \| (\S+) \|$", page, re.M)
    rows.append(("768", re.search(r"released models \| (\S+) \|", page)[1]))
    assert len(rows) == 3
    for width, rate in rows:
        assert tuning_rates.of_width(int(width)) == float(rate)
