"""Signatures of every head: what they did not read of a text is said."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.heads import HEADS as ALL_HEADS
from common.vocabularies.text_settings import TextSettings
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    SpanModel,
    TokenClassificationModel,
    XLNetConfig,
)
from modeling.heads.embedding import EmbeddingModel
from modeling.heads.kernel_ranking import KernelRankingModel
from serving.exported import input_rows
from serving.signatures.build import build
from serving.signatures.sequence import RAW, Context

LENGTH, QUERY = 19, 5
SHORT, LONG = "It cost 12 francs.", "Nobody asked why it did. " * 9
CUT_QUERY = "What did the old ticket cost in 1998?"
RANKED = {"max_query_length": QUERY, "passage_stride": 0, "max_passages": 1}
KNRM = {"ranker": "knrm", "max_query_length": QUERY, "max_doc_length": 11}

# Head -> model of a configuration, options of the data, whether each of these
# rows is cut.
HEADS = {
    "classification": (
        lambda c: ClassificationModel(c, 3),
        {"num_texts": 2},
        [
            ({"text_a": "No.", "text_b": "So"}, False),
            ({"text_a": "No.", "text_b": LONG}, True),
        ],
    ),
    "token_classification": (
        lambda c: TokenClassificationModel(c, 3),
        {},
        [({"text": SHORT}, False), ({"text": LONG}, True)],
    ),
    "embedding": (
        EmbeddingModel,
        {},
        [({"text": SHORT}, False), ({"text": LONG}, True)],
    ),
    "span": (
        lambda c: SpanModel(c, 3, 2),
        {"max_query_length": QUERY},
        [
            # The paragraph is read in windows.
            ({"question": "Who?", "paragraph": LONG}, False),
            ({"question": CUT_QUERY, "paragraph": SHORT}, True),
        ],
    ),
    "multiple_choice": (
        MultipleChoiceModel,
        {"max_qa_length": 6},
        [
            (
                {"passage": "No.", "question": "So", "options": ["a", "b"]},
                False,
            ),
            ({"passage": LONG, "question": "So", "options": ["a", "b"]}, True),
            (
                {"passage": "No.", "question": "So", "options": ["a", LONG]},
                True,
            ),
        ],
    ),
    "ranking": (
        lambda c: ClassificationModel(c, 1, regression=True),
        RANKED,
        [
            ({"query": "Why?", "documents": ["No.", LONG]}, [False, True]),
            ({"query": CUT_QUERY, "documents": ["No.", "So"]}, [True, True]),
        ],
    ),
    "ranking, knrm": (
        lambda c: KernelRankingModel(c, (0.1, 0.9), (0.1, 0.2)),
        KNRM,
        [
            ({"query": "Why?", "documents": ["No.", LONG]}, [False, True]),
            ({"query": CUT_QUERY, "documents": ["No.", "So"]}, [True, True]),
        ],
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", HEADS)
def test_what_is_cut_is_said(name, spiece_model):
    """Also when the rows are asked together."""
    make, options, rows = HEADS[name]
    offline = Tokenizer(spiece_model)
    config = XLNetConfig(
        vocab_size=offline.vocab_size,
        d_model=12,
        n_layer=1,
        n_head=3,
        d_head=4,
        d_inner=20,
    )
    head = name.split(",")[0]
    spec = TaskSpec(
        "task",
        head,
        ("a", "b", "c") if "class" in head else (),
        LENGTH,
        TextSettings(),
        offline.sha256,
        data_options=options,
    )
    with open(spiece_model, "rb") as f:
        tokenizer = GraphTokenizer(f.read(), TextSettings())
    context = Context(make(config), spec, tokenizer, offline.symbols)
    signature = build(context)[RAW].function
    inputs = build(context)[RAW].inputs
    by_alphabet = {n: {"shape": [*inputs[n].shape]} for n in sorted(inputs)}
    assert input_rows.in_order(by_alphabet) == list(inputs)

    def ask(**texts):
        return signature(**{k: tf.constant(v) for k, v in texts.items()})

    wanted = [cut for _, cut in rows]
    together = ask(**{k: [row[k] for row, _ in rows] for k in rows[0][0]})
    assert together["truncated"].numpy().tolist() == wanted
    for i, (row, cut) in enumerate(rows):
        alone = ask(**{k: [value] for k, value in row.items()})
        assert alone["truncated"].numpy().tolist() == [cut]
        for key in {"logits", "scores", "embedding"} & set(alone):
            own = alone[key][0].numpy()
            found = together[key][i].numpy()[tuple(map(slice, own.shape))]
            np.testing.assert_allclose(found, own, atol=2e-6)


@pytest.mark.parametrize(
    "head, message",
    [
        ("language_model", "a model with the head `language_model` has no exp"),
        ("candidate_ranking", "the head `candidate_ranking` has no export"),
        ("spans", "head must be one of .*'span'"),
    ],
)
def test_a_head_that_cannot_be_asked_is_named(head, message):
    spec = TaskSpec("task", head, (), LENGTH, TextSettings(), "")
    with pytest.raises(UserError, match=message):
        build(Context(None, spec, None, None))
    assert (head in ALL_HEADS) == (head != "spans")
