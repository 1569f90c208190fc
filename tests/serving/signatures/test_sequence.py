"""What is answered from logits."""

import numpy as np

from serving.signatures.sequence import _ANSWERS, answers_of

LOGITS = np.asarray([[0.25, -0.1, 2.0], [-3.0, -0.5, -0.2]], np.float32)
NAMES = ["a", "b", "c"]


def test_a_label_is_chosen_above_the_logit_0():
    # That is the probability 0.5; 0.25 is below it as a logit only.
    answer = _ANSWERS["multi_label"](LOGITS, NAMES)
    assert answer["chosen"].numpy().tolist() == [[1, 0, 1], [0, 0, 0]]
    assert answer["labels"].numpy().tolist() == [b"a|c", b""]
    above = answer["probabilities"].numpy() > 0.5
    assert above.astype(int).tolist() == answer["chosen"].numpy().tolist()


def test_a_class_is_the_largest_logit_by_name():
    answer = _ANSWERS["classification"](LOGITS, NAMES)
    assert answer["label_id"].numpy().tolist() == [2, 2]
    assert answer["label"].numpy().tolist() == [b"c", b"c"]
    assert abs(answer["probabilities"].numpy().sum(1) - 1).max() < 1e-6


def test_a_value_is_the_first_column():
    answer = _ANSWERS["regression"](LOGITS[:, :1], [])
    assert np.asarray(answer["value"]).tolist() == [0.25, -3.0]


def test_a_threshold_of_other_weights_is_none():
    """Then it is 0.5, as where none was ever found."""
    for options in ({}, {"label_threshold": None}):
        answer = answers_of("multi_label", LOGITS, NAMES, options)
        assert answer["chosen"].numpy().tolist() == [[1, 0, 1], [0, 0, 0]]
    answer = answers_of("multi_label", LOGITS, NAMES, {"label_threshold": 0.8})
    assert answer["chosen"].numpy().tolist() == [[0, 0, 1], [0, 0, 0]]
