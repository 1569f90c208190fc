"""What options of rankers refuse, alone and together."""

import pytest

from common.errors import UserError
from training.finetuning.ranking.options import LENGTHS, RankerOptions


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RankerOptions(layer="last"), "--layer must be a number"),
        (lambda: RankerOptions(ranker="best"), "--ranker must be one of bm25"),
        (lambda: RankerOptions(exact_sigma=0.0), "--exact_sigma must be > 0"),
        (lambda: RankerOptions(rank_loss="l"), "--rank_loss must be one of hi"),
        (
            lambda: RankerOptions(segment_recurrence=2, passage_stride=9),
            "--passage_stride in windows: give one of them",
        ),
    ],
)
def test_options_that_are_wrong(make, message):
    with pytest.raises(UserError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "word"}, "received --unit=word"),
        ({"center": True}, "received --center=True"),
        ({"ranker": "cosine"}, "received --ranker=cosine"),
    ],
)
def test_what_does_not_go_with_training_vectors(changes, message):
    with pytest.raises(UserError, match=message):
        RankerOptions(train_embeddings=True, **changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"layer": "-1"}, "--layer must be a number from 0 or auto, received"),
        ({"unit": "letter"}, "--unit must be one of piece, word"),
        ({"bins": 0}, "--kernel_bins must be >= 1, received 0"),
        ({"learning_rate": 0.0}, "--knrm_learning_rate must be > 0"),
        ({"adam_epsilon": -1.0}, "--knrm_adam_epsilon must be > 0"),
        ({"batch_size": 0}, "--knrm_batch_size must be >= 1"),
        ({"max_doc_length": 0}, "--max_doc_length must be >= 1"),
        ({"list_size": 1}, "--list_size must be >= 2"),
        ({"segment_recurrence": -1}, "--segment_recurrence must be >= 0"),
        ({"embedding_dtype": "bfloat16"}, "--embedding_dtype must be one of"),
    ],
)
def test_a_value_out_of_range_names_its_flag(changes, message):
    with pytest.raises(UserError, match=message) as e:
        RankerOptions(**changes)
    assert "\n" not in str(e.value)


def test_what_goes_together():
    assert RankerOptions(layer="0").layer == "0"
    made = RankerOptions(train_embeddings=True, stopwords=True, idf=True)
    assert made.unit == "piece" and made.ranker == "knrm"
    # A length that is not given is None: the encoder may say less than these.
    assert {getattr(made, name) for name in LENGTHS} == {None}


@pytest.mark.parametrize("segments, length", [(0, 9), (1, 9), (3, 27)])
def test_rows_of_segments_are_as_long_as_all_of_them(segments, length):
    assert RankerOptions(segment_recurrence=segments).row_length(9) == length
