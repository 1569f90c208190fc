"""Answers in the graph equal the offline windows, beams and n-best lists."""

import json

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings
from data.finetuning.options import SquadDataOptions
from data.finetuning.squad import features as squad_features
from data.finetuning.squad import predictions as squad_predictions
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import SpanModel, XLNetConfig
from modeling.encoders.bert.config import BertConfig
from serving.signatures.sequence import RAW, Context
from serving.signatures.span import span_signatures

LENGTH, STRIDE, QUERY, ANSWER, BEST = 40, 9, 12, 6, 4


@pytest.fixture(
    scope="module",
    params=[
        "xlnet",
        pytest.param("independent", marks=pytest.mark.slow),
        pytest.param("cls_first", marks=pytest.mark.slow),
        pytest.param("cls_first_sep_cls", marks=pytest.mark.slow),
        pytest.param("cls_first_sep_sep_one_segment", marks=pytest.mark.slow),
    ],
)
def context(request, spiece_model):
    tf.keras.utils.set_random_seed(7)
    offline = Tokenizer(spiece_model)
    config = XLNetConfig(
        vocab_size=offline.vocab_size,
        d_model=24,
        n_layer=2,
        n_head=3,
        d_head=8,
        d_inner=40,
        init_std=0.3,
    )
    data_options, independent = {}, False
    if request.param != "xlnet":
        config = BertConfig(
            vocab_size=offline.vocab_size,
            d_model=24,
            n_layer=2,
            n_head=3,
            d_inner=40,
            init_std=0.3,
        )
        independent = request.param == "independent"
        layout = "cls_first" if independent else request.param
        data_options = {"layout": layout}
    model = SpanModel(
        config, start_n_top=4, end_n_top=3, independent=independent
    )
    spec = TaskSpec(
        "squad",
        "span",
        (),
        LENGTH,
        TextSettings(),
        offline.sha256,
        data_options=data_options
        | {
            "doc_stride": STRIDE,
            "max_query_length": QUERY,
            "max_answer_length": ANSWER,
            "n_best_size": BEST,
        },
    )
    with open(spiece_model, "rb") as f:
        tokenizer = GraphTokenizer(f.read(), TextSettings())
    return Context(model, spec, tokenizer, offline.symbols), offline


def offline_answer(context, model, offline, question, paragraph):
    """N-best answers and null odds by the code of the training side."""
    tokens = squad_features.TokenizedParagraph(
        *map(np.asarray, offline.encode_with_offsets(paragraph))
    )
    builder = squad_features.WindowBuilder(
        LENGTH,
        QUERY,
        STRIDE,
        offline.symbols,
        training=False,
        layout=context.spec.data_options.get("layout", "cls_last"),
    )
    builder.add(0, offline.encode(question), tokens)
    windows = builder.finish()
    texts = squad_features.window_texts(windows, [tokens], [0])
    pairs = []
    for i, (_, text) in enumerate(texts):
        table = windows.table
        row = slice(table.row_splits[i], table.row_splits[i + 1])
        ids = table.token_ids[row]
        place = np.arange(len(ids))
        starts = table.columns.get("paragraph_start")
        first = 0 if starts is None else starts[i]
        mask = place < first + table.columns["paragraph_length"][i]
        mask &= place >= first
        mask |= place == table.columns["cls_index"][i]
        beams = model(
            tf.constant(ids[None]),
            paragraph_mask=tf.constant(mask[None].astype(np.int32)),
            cls_index=tf.constant(table.columns["cls_index"][i : i + 1]),
            segment_ids=tf.constant(
                table.segment_ids[row][None].astype(np.int32)
            ),
            longest=ANSWER,
        )
        beams = [np.asarray(x)[0] for x in beams]
        beams[1], beams[3] = beams[1] - first, beams[3] - first
        pairs.append((text, squad_predictions.WindowBeams(*beams)))
    options = SquadDataOptions(n_best_size=BEST, max_answer_length=ANSWER)
    return squad_predictions.answer_question(
        paragraph, pairs, options, context.model.independent
    )


@pytest.mark.long
@pytest.mark.shared
def test_answers_equal_the_offline_ones(context, golden):
    context, offline = context
    with open(golden / "squad" / "dev.json") as f:
        data = json.load(f)["data"]
    cases = [
        (qa["question"], paragraph["context"])
        for article in data
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ][:6]
    function = tf.function(
        span_signatures(context)[RAW].function, autograph=False
    )
    model = tf.function(context.model, reduce_retracing=True, autograph=False)
    got = function(
        question=tf.constant([q for q, _ in cases]),
        paragraph=tf.constant([p for _, p in cases]),
    )
    for row, (question, paragraph) in enumerate(cases):
        nbest, null_odds = offline_answer(
            context, model, offline, question, paragraph
        )
        np.testing.assert_allclose(got["null_odds"][row], null_odds, atol=3e-5)
        texts = [t.decode() for t in got["nbest_text"][row].numpy()]
        assert texts[: len(nbest)] == [a["text"] for a in nbest]
        for key in ("probability", "start_log_prob", "end_log_prob"):
            np.testing.assert_allclose(
                got[f"nbest_{key}"][row][: len(nbest)],
                [a[key] for a in nbest],
                atol=3e-5,
            )
        for text, start, end in zip(
            texts,
            got["nbest_start"][row].numpy(),
            got["nbest_end"][row].numpy(),
            strict=True,
        ):
            assert paragraph[start:end] == text


@pytest.mark.slow
@pytest.mark.shared
def test_an_answer_does_not_depend_on_the_batch(context):
    context, _ = context
    function = tf.function(
        span_signatures(context)[RAW].function, autograph=False
    )
    long = "The harbour was built in 1,204 by monks. " * 30
    questions = ["Who built it?", "When was the harbour built at all?"]
    both = function(
        question=tf.constant(questions),
        paragraph=tf.constant([long, "Short text."]),
    )
    for row, paragraph in enumerate([long, "Short text."]):
        alone = function(
            question=tf.constant(questions[row : row + 1]),
            paragraph=tf.constant([paragraph]),
        )
        assert both["answer"][row] == alone["answer"][0]
        np.testing.assert_allclose(
            both["null_odds"][row], alone["null_odds"][0], atol=3e-5
        )
    assert both["num_windows"][0] > 16, "more windows than one chunk"


@pytest.mark.shared
def test_the_folder_s_threshold_is_the_export_s(context):
    """Above it the answer is ""; the n-best list stays."""
    import dataclasses

    context, _ = context
    question = tf.constant(["Who asked?", "What is it?", "Where?"])
    paragraph = tf.constant(["Xq zebra, 1998.", "A red tower.", "京都は日本"])

    def ask(threshold):
        kept = {"null_score_diff_threshold": threshold}
        spec = dataclasses.replace(
            context.spec, data_options=context.spec.data_options | kept
        )
        function = span_signatures(context._replace(spec=spec))[RAW].function
        return function(question=question, paragraph=paragraph)

    free = ask(None)
    odds = np.sort(free["null_odds"].numpy())
    found = ask(float(odds[0] + odds[1]) / 2)
    empty = free["null_odds"].numpy() > (odds[0] + odds[1]) / 2
    assert empty.sum() == 2
    for row in range(3):
        for name in ("answer", "answer_start", "answer_end"):
            nothing = b"" if name == "answer" else 0
            wanted = nothing if empty[row] else free[name][row].numpy()
            assert found[name][row].numpy() == wanted
    assert (found["nbest_text"].numpy() == free["nbest_text"].numpy()).all()
