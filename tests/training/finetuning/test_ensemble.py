"""Members of an ensemble: what they must have in common."""

import pytest

from common.errors import UserError
from common.text_settings import TextSettings
from data.task_spec import TaskSpec
from training.finetuning import ensemble
from training.finetuning.job import EvalSplit, Job, PredictSplit


def member(folder, evals=(), predicts=(), **data_options):
    spec = TaskSpec(
        "tsv",
        "classification",
        ("a", "b"),
        16,
        TextSettings(),
        "0",
        data_options=data_options,
    )
    job = Job(
        spec,
        "spiece.model",
        9,
        "accuracy",
        evals={name: EvalSplit(None, None) for name in evals},
        predicts={name: PredictSplit(None, None) for name in predicts},
    )
    return ensemble.Member(folder, job, None)


def test_members_hold_out_the_same_rows():
    """Answers are joined by row, so another share or seed is another split."""
    one = {"dev_fraction": 0.2, "dev_seed": 1}
    others = (one | {"dev_seed": 2}, one | {"dev_fraction": 0.3}, {})
    for splits in ({"evals": ("dev",)}, {"predicts": ("dev",)}):
        first = member("first", **splits, **one)
        ensemble.check_alike([first, member("same", **splits, **one)])
        for other in others:
            with pytest.raises(UserError, match="--ensemble: other: dev_") as e:
                ensemble.check_alike(
                    [first, member("other", **splits, **other)]
                )
            assert "of first, found" in str(e.value)
    # Neither the test split nor a share of nothing has held-out rows.
    for splits in ({"evals": ("test",)}, {"predicts": ("test",)}):
        both = [member("m", **splits, **each) for each in (one, others[0])]
        ensemble.check_alike(both)
    seeds = [
        member("m", ("dev",), dev_fraction=0.0, dev_seed=s) for s in (1, 2)
    ]
    ensemble.check_alike(seeds)
