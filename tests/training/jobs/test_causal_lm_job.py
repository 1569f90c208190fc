"""An evaluation's loss in every unit."""

import math

import pytest

from common.errors import UserError
from training.jobs.causal_lm_job import evaluation_lines


def test_every_known_unit_has_a_line_and_no_other():
    def rates(nats):
        return {"per_word": 2 * nats, "per_byte": math.nan}

    values, lines = evaluation_lines(1.5, 3, "test", 4, rates)
    assert values == {
        "predicted_tokens": 3,
        "nats_per_token": 1.5,
        "per_word": 3.0,
    }
    assert lines == [
        "test: predicted 3 of 4 tokens",
        "test: nats_per_token 1.5",
        "test: per_word 3",
    ]
    with pytest.raises(UserError, match="test holds no token to predict"):
        evaluation_lines(0.0, 0, "test", 0, rates)
