"""Outputs of several models are joined as fine-tuning joins members."""

import numpy as np
import pytest

from common.errors import UserError
from serving.exported.members import Ensemble


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
    good.inputs = lambda signature="serving_default": {"text_a": None}
    other = Member("classification", {}, "b")
    with pytest.raises(UserError, match=r"b: wanted the inputs \['text_a'\]"):
        Ensemble([good, other])
    assert Ensemble([tagger]).version_dir == "a*1"  # alone it joins nothing


def test_a_choice_is_of_the_mean_of_probabilities():
    """Two members against one that is surer, and one that counts twice."""
    members = [
        Member("multiple_choice", sequence(row), name)
        for row, name in (([2, 0, 1], "a"), ([0, 9, 0], "b"))
    ]
    even = Ensemble(members)({})
    assert even["choice"].tolist() == [1]
    assert even["probabilities"][0].sum() == pytest.approx(1.0, abs=1e-6)
    assert list(even) == sorted(even)
    assert Ensemble(members, [3.0, 1.0])({})["choice"].tolist() == [0]
    assert Ensemble(members, [3.0, 1.0]).version_dir == "a*3,b*1"


def test_a_threshold_that_one_member_lacks_is_none():
    """An answer is given, whatever the odds are."""
    value = spans([(b"red", 4, -1, -1)], 50, 1)
    members = [
        Member("span", value, null_score_diff_threshold=0.0),
        Member("span", value, "b"),
    ]
    assert Ensemble(members)({})["answer"].tolist() == [b"red"]
    members[1] = members[0]
    assert Ensemble(members)({})["answer"].tolist() == [b""]


def test_what_one_member_does_not_say_is_left_out():
    """An earlier export has no `truncated`."""
    said = {"num_tokens": np.array([3]), "truncated": np.array([1])}
    members = [
        Member("classification", sequence([1, 0], **said)),
        Member("classification", sequence([1, 0], num_tokens=np.array([5]))),
    ]
    found = Ensemble(members)({})
    assert found["num_tokens"].tolist() == [5] and "truncated" not in found


def test_a_threshold_that_other_weights_found_counts_as_a_half():
    several = [
        Member("multi_label", sequence([2, 0]), label_threshold=t)
        for t in (0.8, None)
    ]
    for members in (several, several[::-1]):
        # sigmoid(2) = 0.88 and the mean of the thresholds 0.65.
        assert Ensemble(members)({})["chosen"].tolist() == [[1, 0]]
    several[0].description["data_options"]["label_threshold"] = None
    assert Ensemble(several)({})["chosen"].tolist() == [[1, 0]]


def test_members_read_the_same_columns():
    def members(*columns):
        return [
            Member("regression", {}, str(i), text_columns=list(names))
            for i, names in enumerate(columns)
        ]

    with pytest.raises(UserError, match="1: wanted the text columns a, b in"):
        Ensemble(members("ab", "ba"))
    Ensemble(members("ab", "AB"))
    Ensemble(members("ab", ""))  # an older export does not say
