"""Options of fine-tuning that no task can have."""

import re

import pytest

from common.errors import UserError
from data.finetuning.classifier import sets
from data.finetuning.options import ClassifierDataOptions, SquadDataOptions


def test_ranking_is_for_two_tasks():
    assert ClassifierDataOptions("QNLI", "d", ranking=True).ranking
    with pytest.raises(UserError, match="--ranking is for qnli and wnli"):
        ClassifierDataOptions("rte", "d", ranking=True)
    with pytest.raises(UserError, match="ranking_beta"):
        ClassifierDataOptions("wnli", "d", ranking=True, ranking_beta=-1.0)


def test_the_help_names_every_task():
    told = ClassifierDataOptions.__dataclass_fields__["task_name"].metadata
    names = re.findall(r"[\w:-]+", str(dict(told)))
    assert set(sets.task_names()) <= set(names)


def test_weights_are_checked():
    for weights, message in (
        ((1.0,), "wanted one per training file \\(2\\)"),
        ((1.0, 0.0), "must be positive"),
    ):
        with pytest.raises(UserError, match=message):
            SquadDataOptions(train_file="a,b", train_weights=weights)
