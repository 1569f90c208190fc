"""SavedModels that answer together: one alone keeps its bytes."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from common.errors import UserError
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    SpanModel,
)
from serving import ensemble
from serving.export import export_model
from serving.exported import answering
from serving.exported.members import Ensemble
from serving.options import EnsembleOptions, PredictOptions
from serving.saved_model import SavedModel
from tests.serving.export.toy_exports import (
    LABELS,
    ROWS,
    make_config,
    make_spec,
)
from tests.serving.exported.fake_models import options
from tests.serving.exported.saved_graphs import GOOD, save


def test_folders_and_weights_that_do_not_fit_are_named():
    asked = PredictOptions("", text=("a",))
    for members, weights, message in (
        ((), (), "--ensemble is empty"),
        (("a", "a"), (), "names a folder twice"),
        (("a", "b"), (1.0,), "one per folder"),
        (("a",), (float("inf"),), "positive"),
    ):
        with pytest.raises(UserError, match=message):
            EnsembleOptions(asked, members, weights)


def _same_logits(first):
    """An export's function: these logits for every text."""
    return lambda text: {
        "logits": tf.tile(tf.constant([[first, 0.0]]), [tf.size(text), 1])
    }


def test_the_command_answers_with_the_mean(tmp_path, monkeypatch, capsys):
    """Weights of the flag; what was read goes to standard error."""
    for name, sign in (("one", 1.0), ("two", -1.0)):
        save(tmp_path / name, _same_logits(2.0 * sign))
        about = json.dumps(GOOD | {"labels": ["no", "yes"]})
        (tmp_path / name / "signature.json").write_text(about)
    folders = tuple(str(tmp_path / name) for name in ("one", "two"))
    rows = PredictOptions("", text=("a", "b"))
    built = {
        PredictOptions: rows,
        EnsembleOptions: EnsembleOptions(rows, folders, (3.0, 1.0)),
    }
    monkeypatch.setattr(
        ensemble.flag_values, "build", lambda cls, **_: built[cls]
    )
    ensemble.main()
    said = capsys.readouterr()
    assert all(folder in said.err for folder in folders)
    share = 1 / (1 + math.exp(-2))
    wanted = (3 * share + 1 - share) / 4
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [row["label"] for row in found] == ["no", "no"]
    for row in found:
        assert row["probabilities"]["no"] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("head", ROWS)
def test_exports_answer_together(head, spiece_model, tmp_path):
    """One alone gives its own file; a model and itself say the same."""
    config = make_config().replace(n_layer=1)
    folders = []
    for seed in (1, 2):
        tf_keras.utils.set_random_seed(seed)
        model, labels = {
            "classification": lambda: (ClassificationModel(config, 3), LABELS),
            "multiple_choice": lambda: (MultipleChoiceModel(config), ()),
            "span": lambda: (SpanModel(config, 2, 2), ()),
        }[head]()
        spec = make_spec(head, labels)
        if head == "span":
            spec = make_spec(head, max_query_length=4, doc_stride=4)
        parent = str(tmp_path / f"model_{seed}")
        export_model(parent, model, spec, spiece_model, check=False)
        folders.append(parent)
    (tmp_path / "in.jsonl").write_text(json.dumps(ROWS[head]) + "\n")
    models = [SavedModel(folder) for folder in folders]

    def answers(name, model):
        path = tmp_path / name
        asked = options(tmp_path, "in.jsonl", output_file=str(path))
        assert answering.predict_file(model, asked) == 1
        return path.read_bytes()

    alone = answers("alone", models[0])
    assert answers("one", Ensemble(models[:1])) == alone
    twice = json.loads(answers("twice", Ensemble([models[0]] * 2)))
    same = json.loads(alone)
    other = json.loads(answers("other", models[1]))
    both = json.loads(answers("both", Ensemble(models)))
    assert set(both) == set(same) == set(twice)
    key = "nbest_text" if head == "span" else "probabilities"
    if head == "span":
        assert twice[key] == same[key]
        assert both["null_odds"] == pytest.approx(
            (same["null_odds"] + other["null_odds"]) / 2, rel=1e-5
        )
        assert set(filter(None, both[key])) <= {*same[key], *other[key]}
        return
    shares = [
        np.array(list(a[key].values()) if head == "classification" else a[key])
        for a in (same, other, both, twice)
    ]
    np.testing.assert_allclose(
        shares[2], (shares[0] + shares[1]) / 2, atol=1e-6
    )
    np.testing.assert_allclose(shares[3], shares[0], atol=1e-6)
