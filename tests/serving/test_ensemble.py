"""SavedModels that answer together: one alone keeps its bytes."""

import json

import numpy as np
import pytest
import tf_keras

from common.errors import UserError
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    SpanModel,
)
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
from tests.serving.fake_models import options


class Member:
    """A model with fixed outputs."""

    def __init__(self, head, outputs, name="a", labels=("no", "yes"), **data):
        self.version_dir = name
        self.description = {
            "task": "tsv",
            "head": head,
            "labels": list(labels),
            "data_options": data,
        }
        self.outputs = outputs

    def inputs(self, signature="serving_default"):
        return {"text": {"dtype": "string", "shape": [None]}}

    def __call__(self, inputs):
        return dict(self.outputs)


def sequence(*logits, **more):
    return {"logits": np.array(logits, np.float32), **more}


def spans(entries, odds, windows):
    """One row of a list of (text, start, log P(start), log P(end))."""
    columns = list(zip(*entries, strict=True))
    text = np.array([columns[0]], object)
    starts = np.array([columns[1]], np.int32)
    found = {
        "nbest_text": text,
        "nbest_start": starts,
        "nbest_end": starts + [[len(t) for t in columns[0]]],
        "nbest_probability": np.zeros(text.shape, np.float32),
        "nbest_start_log_prob": np.array([columns[2]], np.float32),
        "nbest_end_log_prob": np.array([columns[3]], np.float32),
        "null_odds": np.array([odds], np.float32),
        "num_windows": np.array([windows]),
    }
    found["nbest_end"] = found["nbest_end"].astype(np.int32)
    return found


def test_probabilities_values_and_answers_are_joined():
    tokens = {"num_tokens": np.array([3, 9]), "truncated": np.array([0, 1])}
    first = Member("classification", sequence([2, 0], [0, 1], **tokens))
    tokens = {"num_tokens": np.array([4, 8]), "truncated": np.array([0, 0])}
    second = Member("classification", sequence([0, 9], [0, 1], **tokens), "b")
    found = Ensemble([first, second], [1.0, 3.0])({})
    shares = [np.exp([2, 0]) / np.exp([2, 0]).sum(), np.exp([0, 9])]
    shares[1] /= shares[1].sum()
    np.testing.assert_allclose(
        found["probabilities"][0], (shares[0] + 3 * shares[1]) / 4, atol=1e-6
    )
    assert found["label"].tolist() == [b"yes", b"yes"]
    assert found["num_tokens"].tolist() == [4, 9]
    assert found["truncated"].tolist() == [0, 1]
    values = [
        Member("regression", {"value": np.array([v, 2.0])}) for v in (1.0, 4.0)
    ]
    joined = Ensemble(values, [2.0, 1.0])({})["value"]
    np.testing.assert_allclose(joined, [2.0, 2.0])
    # sigmoid(0) = 0.5 and sigmoid(2) = 0.88: 0.69 against a mean of 0.6, 0.8.
    several = [
        Member("multi_label", sequence([x, -9]), label_threshold=t)
        for x, t in ((0, 0.6), (2, 0.8))
    ]
    assert Ensemble(several)({})["chosen"].tolist() == [[0, 0]]
    several[1].description["data_options"]["label_threshold"] = 0.6
    assert Ensemble(several)({})["labels"].tolist() == [b"no"]

    one = spans([(b"red", 4, -1, -1), (b"tower", 8, -1, -2)], -1, 1)
    two = spans([(b"tower", 8, 0, -1), (b"", 0, -1e6, -1e6)], 0, 2)
    both = [
        Member("span", value, null_score_diff_threshold=-0.4)
        for value in (one, two)
    ]
    found = Ensemble(both)({})
    assert found["nbest_text"].tolist() == [[b"tower", b"red"]]
    assert found["nbest_start"].tolist() == [[8, 4]]
    wanted = np.array([(np.exp(-3) + np.exp(-1)) / 2, np.exp(-2) / 2])
    np.testing.assert_allclose(
        found["nbest_probability"][0], wanted / wanted.sum(), rtol=1e-5
    )
    assert found["null_odds"].tolist() == [-0.5]  # below: it answers
    assert found["answer"].tolist() == [b"tower"]
    assert found["num_windows"].tolist() == [2]
    for member in both:
        member.description["data_options"]["null_score_diff_threshold"] = -0.6
    found = Ensemble(both)({})
    assert found["answer"].tolist() == [b""]
    assert found["answer_end"].tolist() == [0]


def test_what_cannot_be_joined_is_said():
    good = Member("classification", {})
    for other, message in (
        (Member("classification", {}, "b", ("yes", "no")), "b: labels: want"),
        (Member("regression", {}, "b"), "b: head: wanted classification"),
    ):
        with pytest.raises(UserError, match=message):
            Ensemble([good, other])
    tagger = Member("token_classification", {})
    with pytest.raises(UserError, match="found token_classification"):
        Ensemble([tagger, tagger])
    asked = PredictOptions("", text=("a",))
    for members, weights, message in (
        ((), (), "--ensemble is empty"),
        (("a", "a"), (), "names a folder twice"),
        (("a", "b"), (1.0,), "one per folder"),
        (("a",), (float("inf"),), "positive"),
    ):
        with pytest.raises(UserError, match=message):
            EnsembleOptions(asked, members, weights)


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
