"""What a run makes of its evaluations: patience and the metric it is of."""

import types

import pytest

from common.errors import UserError
from tests.helpers.runs import toy
from training import loop
from training.reporting import eval_runner
from training.run_options import OptimizerOptions

SAME_BEST = {2: (0.9, 0.5), 4: (0.5, 0.6), 6: (0.6, 0.4), 8: (0.7, 0.3)}
OTHER_BEST = {2: (0.9, 0.5), 4: (0.5, 0.4), 6: (0.6, 0.3), 8: (0.7, 0.2)}


def test_a_trigger_names_what_an_evaluation_without_a_loss_has():
    """A tagger's, on a file of other tags alone."""
    assert eval_runner._loss({"accuracy": 0.5, "loss": 0.25}) == 0.25
    with pytest.raises(UserError, match="this one has accuracy, f1 alone"):
        eval_runner._loss({"f1": 0.0, "accuracy": 0.0})


def train(folder, numbers, metric, to, patience=3, shown=("stopped",), **more):
    """Trains where every evaluation finds the (accuracy, loss) of its step."""

    def make(run):
        def evaluate(steps):
            step = int(run.learner.optimizer.step.numpy())
            found = dict(zip(("accuracy", "loss"), numbers[step], strict=True))
            return types.SimpleNamespace(metrics=found)

        return types.SimpleNamespace(run=evaluate)

    options = toy.run_options(
        folder,
        train_steps=to,
        iterations=2,
        save_steps=2,
        eval_every=2,
        patience=patience,
        best_metric=metric,
        best_higher=metric == "accuracy",
        **more,
    )
    said = []
    objective = toy.ToyObjective()
    result = loop.train(
        objective, toy.input_fn, options, make_evaluator=make, say=said.append
    )
    return result.step, [line for line in said if line.startswith(shown)]


@pytest.mark.long
def test_patience_is_of_the_metric_that_a_resumed_run_names(tmp_path):
    """The loss falls to the end, the accuracy never comes back to 0.9."""
    assert train(tmp_path / "a", SAME_BEST, "loss", 4) == (4, [])
    step, (line,) = train(tmp_path / "a", SAME_BEST, "accuracy", 12)
    assert step == 8
    assert line.endswith("at step 8: 3 evaluations without a better accuracy")
    # By the loss the same evaluations are no reason to stop.
    assert train(tmp_path / "b", SAME_BEST, "loss", 4) == (4, [])
    assert train(tmp_path / "b", SAME_BEST, "loss", 8) == (8, [])


@pytest.mark.long
def test_patience_is_not_counted_from_the_best_of_another_metric(tmp_path):
    """Refused before a step: best/ is of the metric before."""
    assert train(tmp_path, OTHER_BEST, "loss", 6) == (6, [])
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match="best by accuracy is at step 2"):
        train(tmp_path, OTHER_BEST, "accuracy", 8)
    ours = [tmp_path / "best", tmp_path / "evaluations.jsonl"]
    for path, content in before.items():
        if path in ours or path.parent in ours:
            assert path.read_bytes() == content


@pytest.mark.long
@pytest.mark.parametrize("last, begins", [(4, 8), (5, 7)])
def test_patience_before_the_steps_that_are_averaged_is_said(
    tmp_path, last, begins
):
    """It ends at step 8 of 12: of the last five one was averaged."""
    optimizer = OptimizerOptions(average_last=last)
    shown = ("stopped early", "note: --average_last")
    step, lines = train(
        tmp_path, SAME_BEST, "accuracy", 12, shown=shown, optimizer=optimizer
    )
    assert step == 8 and lines[0].startswith("stopped early at step 8")
    notes = ["note: --average_last=4 begins after step 8: nothing was averaged"]
    assert lines[1:] == (notes if begins == 8 else [])
