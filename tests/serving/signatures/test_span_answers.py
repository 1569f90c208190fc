"""Answers of beams: windows, texts, equal texts, empty places."""

import numpy as np
import pytest
import tensorflow as tf

from common.vocabularies.text_settings import TextSettings
from data.finetuning.options import SquadDataOptions
from data.finetuning.squad import predictions
from data.text.graph.graph_tokenizer import GraphTokenizer
from serving.signatures import graph_features, span_answers


def test_answers_hold_no_space_at_their_ends():
    """A bare space can be a piece; the offline code strips its text."""
    texts = ["a  b\u3000c ", "   ", "x", "\u00a0\u00e9\u00a0"]
    first = tf.constant([[1, 0, 2, 0], [0, 1, 2, 2], [0] * 4, [0, 1, 0, 2]])
    last = tf.constant([[4, 6, 3, 2], [0, 2, 2, 2], [0] * 4, [2, 2, 0, 2]])
    valid = tf.constant([[True] * 4] * 3 + [[True] * 3 + [False]])
    found, begin = span_answers._texts(tf.constant(texts), first, last, valid)
    for row, text in enumerate(texts):
        for i in range(4):
            whole = text[int(first[row, i]) : int(last[row, i]) + 1]
            wanted = whole.strip() if valid[row, i] else ""
            assert found[row, i].numpy().decode() == wanted
            start = int(begin[row, i])
            assert text[start : start + len(wanted)] == wanted


@pytest.mark.shared
def test_a_lone_mark_before_the_text_is_its_first_letter(spiece_model):
    """Graph and offline code, with beams on that piece alone."""
    with open(spiece_model, "rb") as f:
        tokenizer = GraphTokenizer(f.read(), TextSettings())
    options = span_answers.Options(12, 9, 4, 6, False, None)
    paragraph = tf.constant(["京都は日本", "Xq zebra"])
    tokens, starts, ends = tokenizer.tokenize_with_offsets(paragraph)
    assert [row[0] for row in ends.to_list()] == [0, 0]  # lone marks
    counts = tf.cast(tokens.row_lengths(), tf.int32)
    windows = graph_features.doc_windows(counts, counts + 1, 9)
    beams = {
        "start_top_log_probs": tf.zeros([2, 1]),
        "start_top_index": tf.zeros([2, 1], tf.int32),
        "end_top_log_probs": tf.zeros([2, 1]),
        "end_top_index": tf.zeros([2, 1], tf.int32),
    }
    found = span_answers.candidates(options, windows, beams, starts, ends)
    assert found.valid.numpy().all()
    answers = span_answers.choose(options, windows, found, paragraph)
    assert [a.decode() for a in answers["answer"].numpy()] == ["京", "X"]


@pytest.mark.parametrize("count, room, stride", [(23, 7, 3), (9, 4, 4)])
def test_the_window_with_most_context_is_the_offline_one(count, room, stride):
    """Of two paragraphs, so that windows of one do not count for the other."""
    windows = graph_features.doc_windows(
        tf.constant([5, count]), tf.constant([room, room]), stride
    )
    places = tf.tile(tf.range(room)[tf.newaxis], [tf.size(windows.row), 1])
    found = span_answers._most_context(windows, places).numpy()
    rows = windows.row.numpy()
    for paragraph in (0, 1):
        mine = np.flatnonzero(rows == paragraph)
        spans = [(int(windows.start[i]), int(windows.length[i])) for i in mine]
        for number, i in enumerate(mine):
            wanted = predictions.max_context(spans, number)
            assert found[i, : len(wanted)].tolist() == wanted.tolist()
    assert found.any(1).sum() > 3


def beams_of(*pairs):
    """One window's beams: (start, end, log P(start), log P(end))."""
    columns = list(zip(*pairs, strict=True))
    return {
        "start_top_index": tf.constant([columns[0]], tf.int32),
        "end_top_index": tf.constant([columns[1]], tf.int32),
        "start_top_log_probs": tf.constant([columns[2]], tf.float32),
        "end_top_log_probs": tf.constant([columns[3]], tf.float32),
    }


def answers_of(paragraph, beams, best=4, longest=3, bug=False):
    """`choose` of one window, where each character is a token."""
    size = len(paragraph)
    starts = tf.RaggedTensor.from_tensor(tf.range(size)[tf.newaxis])
    options = span_answers.Options(9, 9, best, longest, bug, None)
    windows = graph_features.doc_windows(
        tf.constant([size]), tf.constant([size]), 9
    )
    found = span_answers.candidates(options, windows, beams, starts, starts + 1)
    answers = span_answers.choose(
        options, windows, found, tf.constant([paragraph])
    )
    return found, {name: value.numpy()[0] for name, value in answers.items()}


def test_a_text_counts_once_and_missing_answers_are_empty():
    beams = beams_of(
        (0, 0, -1.0, -1.0),  # a
        (3, 3, -0.5, -1.0),  # the same text later, likelier
        (1, 2, -0.25, -4.0),  # bc
        (0, 3, -0.125, -0.125),  # longer than 3
        (2, 1, -0.125, -0.125),  # ends before it begins
        (-1, 2, 0.0, 0.0),
        (1, 9, 0.0, 0.0),
    )
    found, answers = answers_of("abca", beams)
    assert found.valid.numpy().tolist() == [[True] * 3 + [False] * 4]
    assert answers["nbest_text"].tolist() == [b"a", b"bc", b"", b""]
    assert answers["nbest_start"].tolist() == [3, 1, 0, 0]
    assert answers["nbest_end"].tolist() == [4, 3, 0, 0]
    empty = predictions.EMPTY_LOG_PROB
    assert answers["nbest_start_log_prob"].tolist() == [
        *(-0.5, -0.25),
        *[empty] * 2,
    ]
    shares = np.exp([-1.5, -4.25])
    np.testing.assert_allclose(
        answers["nbest_probability"], [*shares / shares.sum(), 0, 0], atol=1e-6
    )
    for name in ("text", "start", "end", "probability"):
        key = "answer" if name == "text" else f"answer_{name}"
        assert answers[key] == answers[f"nbest_{name}"][0]


def test_equally_likely_answers_keep_the_order_of_their_beams():
    beams = beams_of(*((i, i, -1.0, -1.0) for i in (2, 0, 3, 1)))
    _, answers = answers_of("abcd", beams, best=3)
    assert answers["nbest_text"].tolist() == [b"c", b"a", b"d"]


def test_the_original_s_last_token_is_no_answer():
    beams = beams_of((0, 3, -1.0, -1.0), (1, 2, -1.0, -1.0))
    for bug, wanted in ((False, [True, True]), (True, [False, True])):
        found, _ = answers_of("abcd", beams, longest=4, bug=bug)
        assert found.valid.numpy().tolist() == [wanted]


def test_what_may_not_answer_fills_no_place_of_a_long_list():
    """Three candidates, four places: a text twice, and an invalid span."""
    beams = beams_of((0, 0, -1.0, -1.0), (3, 3, -2.0, -2.0), (1, 0, 5.0, 5.0))
    _, answers = answers_of("abca", beams)
    assert answers["nbest_text"].tolist() == [b"a", b"", b"", b""]
    assert answers["nbest_probability"].tolist() == [1.0, 0.0, 0.0, 0.0]
    _, answers = answers_of("abca", beams_of((0, 0, -1.0, -1.0)), best=2)
    assert answers["nbest_probability"].tolist() == [1.0, 0.0]


def test_no_beam_that_may_answer_gives_empty_answers():
    _, answers = answers_of("ab", beams_of((1, 0, 0.0, 0.0)), best=2)
    assert answers["nbest_text"].tolist() == [b"", b""]
    assert (answers["answer_start"], answers["answer_end"]) == (0, 0)
    assert answers["nbest_probability"].tolist() == [1.0, 0.0]
    nbest, _ = predictions.answer_question("ab", [], SquadDataOptions())
    assert [entry["probability"] for entry in nbest] == [1.0]


@pytest.mark.parametrize("independent, wanted", [(False, -2.5), (True, 1.5)])
def test_null_odds_are_the_offline_ones(independent, wanted):
    """Two windows of a question: the likelier answer is in the second."""
    windows = graph_features.doc_windows(
        tf.constant([3]), tf.constant([2]), tf.constant(2)
    )
    beams = {
        "start_top_log_probs": tf.constant([[-3.0], [-0.5]]),
        "end_top_log_probs": tf.constant([[-1.0], [-0.5]]),
        "cls_logits": tf.constant([4.5, -2.5]),
    }
    answers = {
        f"nbest_{name}_log_prob": tf.constant([[value, -9.0]])
        for name, value in (("start", -4.0), ("end", -1.0))
    }
    found = span_answers.null_odds(windows, beams, answers, independent)
    assert found.numpy().tolist() == [wanted]
    nothing = {
        name: tf.fill([1, 2], predictions.EMPTY_LOG_PROB) for name in answers
    }
    found = span_answers.null_odds(windows, beams, nothing, independent)
    most = predictions.MAX_NULL_ODDS if independent else wanted
    assert found.numpy().tolist() == [most]
