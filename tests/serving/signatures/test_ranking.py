"""Documents of queries: windows, scores, orders, what was cut."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract import symbols
from common.contract.symbols import SymbolIds
from common.contract.task_spec import TaskSpec
from data.finetuning.features import pair_features
from data.finetuning.squad.features import doc_windows
from serving.signatures.ranking import ranking_signatures
from serving.signatures.sequence import IDS, RAW, Context
from tests.serving.signatures.letters import Letters

LENGTH, QUERY = 14, 4
QUERIES = ["ab", "cdefgh", ""]
DOCUMENTS = [
    ["qrs", "", "a longer text, read in windows", "qrs"],
    ["of nine ch", "more than two windows has this", "z", "yz"],
    ["eleven and a", "x", "xx", "abcdefghijk"],
]


def score_of(ids) -> float:
    """What the toy model gives for a row."""
    return float(sum(i * i for i in ids) % 1009)


def cross_encoder(ids, segment_ids, input_mask, training):
    assert training is False
    del segment_ids
    return tf.cast(tf.reduce_sum(ids * ids * input_mask, 1) % 1009, tf.float16)[
        :, tf.newaxis
    ]


def spec_of(layout, **options):
    options = {"max_query_length": QUERY, "layout": layout} | options
    return TaskSpec("t", "ranking", (), LENGTH, None, "", data_options=options)


@pytest.mark.parametrize("layout", symbols.LAYOUTS)
@pytest.mark.parametrize("stride, most", [(3, 2), (5, 9), (0, 4)])
def test_a_document_has_the_score_of_its_best_window(layout, stride, most):
    letters, ids = Letters(), SymbolIds()
    spec = spec_of(layout, passage_stride=stride, max_passages=most)
    signature = ranking_signatures(Context(cross_encoder, spec, letters, ids))
    found = signature[RAW].function(
        tf.constant(QUERIES), tf.constant(DOCUMENTS)
    )
    assert found["scores"].dtype == tf.float32
    for row, query in enumerate(QUERIES):
        asked = letters.encode(query)[:QUERY]
        scores, cut = [], []
        for document in DOCUMENTS[row]:
            pieces = letters.encode(document)
            room = LENGTH - len(asked) - symbols.row_symbols(layout)
            windows = doc_windows(len(pieces), room, stride or LENGTH)
            used = windows[: most if stride else 1]
            rows = [
                pair_features.join_segments(
                    [asked, pieces[a : a + n]], LENGTH, ids, layout
                ).ids
                for a, n in used
            ]
            scores.append(max(map(score_of, rows)))
            cut.append(len(used) < len(windows) or len(query) > QUERY)
        assert found["scores"][row].numpy().tolist() == scores
        assert found["truncated"][row].numpy().tolist() == cut
        order = np.argsort(-np.asarray(scores), kind="stable")
        assert found["order"][row].numpy().tolist() == order.tolist()
    # Equal documents keep the order in which they were given.
    first = found["order"][0].numpy().tolist()
    assert first.index(0) < first.index(3)


def test_a_batch_changes_no_score():
    spec = spec_of(symbols.CLS_LAST, passage_stride=3, max_passages=2)
    context = Context(cross_encoder, spec, Letters(), SymbolIds())
    function = ranking_signatures(context)[RAW].function
    whole = function(tf.constant(QUERIES), tf.constant(DOCUMENTS))
    for row, query in enumerate(QUERIES):
        alone = function(
            tf.constant([query]), tf.constant([DOCUMENTS[row][1:3]])
        )
        for name in ("scores", "truncated"):
            np.testing.assert_array_equal(alone[name][0], whole[name][row, 1:3])


def test_ids_have_one_score_a_row():
    spec = spec_of(symbols.CLS_LAST, passage_stride=3, max_passages=2)
    context = Context(cross_encoder, spec, Letters(), SymbolIds())
    ids = tf.constant([[9, 9, 5], [7, 8, 6]])
    mask = tf.constant([[0, 1, 1], [1, 1, 1]])
    found = ranking_signatures(context)[IDS].function(ids, ids * 0, mask)
    assert found.keys() == {"scores"}
    assert found["scores"].numpy().tolist() == [106.0, 149.0]


class Kernels:
    """Stands for K-NRM: a score says which pieces it was asked about."""

    def __init__(self, with_candidate_score):
        self.with_candidate_score = with_candidate_score

    def vectors(self, ids, segment_ids, input_mask):
        del segment_ids
        ids = tf.cast(ids * input_mask, tf.float32)
        return tf.stack([ids, ids * ids], -1)

    def __call__(self, query, ids, mask, document, document_mask, candidate):
        np.testing.assert_array_equal(
            query[..., 0] * tf.cast(mask, tf.float32), ids * mask
        )
        self.queries = [
            row[real > 0].tolist()
            for row, real in zip(ids.numpy(), mask.numpy(), strict=True)
        ]
        self.documents = [
            row[real > 0].tolist()
            for row, real in zip(
                document[..., 0].numpy(), document_mask.numpy(), strict=True
            )
        ]
        scores = tf.range(tf.shape(ids)[0], dtype=tf.int32) % 3
        scores = tf.cast(scores, tf.float32)
        return scores if candidate is None else scores + candidate


@pytest.mark.parametrize("layout", symbols.LAYOUTS)
@pytest.mark.parametrize("with_candidate_score", [False, True])
def test_kernels_see_pieces_and_no_symbols(layout, with_candidate_score):
    model, letters = Kernels(with_candidate_score), Letters()
    spec = spec_of(layout, ranker="knrm", max_doc_length=8)
    signatures = ranking_signatures(Context(model, spec, letters, SymbolIds()))
    assert IDS not in signatures
    given = {
        "query": tf.constant(QUERIES),
        "documents": tf.constant(DOCUMENTS),
        "candidate_scores": tf.reshape(tf.range(12.0), [3, 4]),
    }
    inputs = signatures[RAW].inputs
    assert inputs.keys() == signatures[RAW].example.keys()
    assert ("candidate_scores" in inputs) == with_candidate_score
    found = signatures[RAW].function(**{name: given[name] for name in inputs})
    asked = [letters.encode(q)[:QUERY] for q in QUERIES for _ in range(4)]
    assert model.queries == asked
    read = [letters.encode(d)[:8] for row in DOCUMENTS for d in row]
    assert model.documents == read
    scores = np.arange(12.0) % 3 + with_candidate_score * np.arange(12.0)
    assert found["scores"].numpy().tolist() == scores.reshape(3, 4).tolist()
    cut = [
        [len(q) > QUERY or len(d) > 8 for d in row]
        for q, row in zip(QUERIES, DOCUMENTS, strict=True)
    ]
    assert found["truncated"].numpy().tolist() == cut
