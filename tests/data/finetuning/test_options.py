"""Options of fine-tuning that no task can have."""

import pytest

from common.errors import UserError
from data.finetuning.options import ClassifierDataOptions, SquadDataOptions


def test_ranking_is_for_two_tasks():
    assert ClassifierDataOptions("QNLI", "d", ranking=True).ranking
    with pytest.raises(UserError, match="--ranking is for qnli and wnli"):
        ClassifierDataOptions("rte", "d", ranking=True)
    with pytest.raises(UserError, match="ranking_beta"):
        ClassifierDataOptions("wnli", "d", ranking=True, ranking_beta=-1.0)


def test_weights_are_checked():
    for weights, message in (
        ((1.0,), "wanted one per training file \\(2\\)"),
        ((1.0, 0.0), "must be positive"),
    ):
        with pytest.raises(UserError, match=message):
            SquadDataOptions(train_file="a,b", train_weights=weights)
