"""Members of an ensemble: what they must have in common."""

import dataclasses
import json
import types

import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.classifier.sets import THRESHOLD
from modeling.checkpoints import restore as checkpoints
from tests.helpers.runs import classifier_outputs as classifier
from tests.helpers.runs.classifier import make_options
from training.finetuning import ensemble


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
    task = types.SimpleNamespace(
        spec=lambda: spec,
        evals=dict.fromkeys(evals, ()),
        predicts=dict.fromkeys(predicts, ()),
        lengths=len,
    )
    return ensemble.Member(folder, task, None)


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


def test_members_read_the_same_rows():
    """Settings of a member's folder may make a row bad for it alone."""

    def reading(folder, **counts):
        task = types.SimpleNamespace(
            evals={k: k for k in counts}, predicts={}, lengths=counts.get
        )
        return ensemble.Member(folder, task, None)

    first = reading("first", dev="abc", other="a")
    ensemble.check_rows([first, reading("same", dev="def"), first])
    with pytest.raises(UserError, match="other: wanted the 3 rows of dev that"):
        ensemble.check_rows([first, reading("other", dev="ab")])


def test_predictions_have_the_ensembles_own_threshold(
    tmp_path, spiece_model, monkeypatch
):
    """One that an evaluation of the same members found; else it is said."""
    make = classifier.make_owner
    owner, _ = make(tmp_path, spiece_model, actions=("do_predict",))
    spec = classifier.keeping(owner.load(), 0.95)
    logits = classifier.outputs_and_labels(None)[0]
    answers = ensemble._Answers({}, {}, {"test": logits})
    monkeypatch.setattr(ensemble, "_ask", lambda *arguments: answers)
    monkeypatch.setattr(
        ensemble,
        "_with_weights",
        lambda member, say: dataclasses.replace(
            member,
            weights=checkpoints.Source("native", "model.ckpt-1", ""),
            spec=member.task.spec(),
        ),
    )
    home = tmp_path / "model"

    def predict(folders=("a", "b"), **data):
        owner, options = make(
            tmp_path, spiece_model, spec, ("do_predict",), **data
        )
        task, said = owner.load(), []
        members = [ensemble.Member(f, task, options) for f in folders]
        ensemble.run(members, options, said.append)
        rows = home / "predictions" / "test_predictions.tsv"
        lines = rows.read_text().splitlines()[1:]
        notes = [line for line in said if line.startswith("note")]
        return [line.split("\t")[1] for line in lines], notes

    none, right = [""] * 4, list(classifier.GOLD)
    found, notes = predict()
    assert found == none
    assert notes == [
        "note: label_threshold=0.95 is of a alone: --do_eval finds the "
        "ensemble's"
    ]
    record = json.loads((home / "ensemble.json").read_text())
    record["found"] = {THRESHOLD: 0.3}
    (home / "ensemble.json").write_text(json.dumps(record))
    assert predict() == (right, [])
    assert predict(label_threshold=0.99) == (none, [])
    assert predict() == (right, [])  # what was found stays
    found, notes = predict(("b", "a"))
    assert found == none and len(notes) == 1


@pytest.mark.parametrize(
    "text, message",
    [
        ("{}", "ensemble.json is damaged: `members` wanted a list, found None"),
        ("[]", "ensemble.json: wanted a JSON object, found"),
        ("{", "ensemble.json is not valid JSON"),
        (
            '{"members": [], "weights": [], "found": {"x": "y"}}',
            "ensemble.json is damaged: `found` wanted numbers, found x = y",
        ),
    ],
)
def test_a_damaged_record_is_refused_before_any_answer(tmp_path, text, message):
    options = make_options(
        tmp_path, do_eval=True, run={"model_dir": str(tmp_path)}
    )
    (tmp_path / "ensemble.json").write_text(text)
    with pytest.raises(UserError, match=message):
        ensemble.run([member("a"), member("b")], options, str)
    assert (tmp_path / "ensemble.json").read_text() == text
