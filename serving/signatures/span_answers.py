"""Which beams of the windows of a question are its answers, in the graph.

`data.finetuning.squad.predictions` as TensorFlow. Letters: B questions, W
windows of all of them, N windows of one, S and E start and end beams, X
candidates of a question, C characters.
"""

from typing import NamedTuple

import tensorflow as tf

from data.finetuning.squad.predictions import EMPTY_LOG_PROB, MAX_NULL_ODDS
from data.text.graph.graph_text import white_space

_CANDIDATES = 256  # best spans of a question that are told apart by text


class Options(NamedTuple):
    """The task's `data_options`, defaults of `SquadDataOptions`."""

    max_query_length: int
    doc_stride: int
    n_best_size: int
    max_answer_length: int
    original_last_token_bug: bool
    null_score_diff_threshold: float | None


class Candidates(NamedTuple):
    """Valid spans of all windows: float32 / int32 [W, S*E]."""

    start_log_probs: tf.Tensor
    end_log_probs: tf.Tensor
    first: tf.Tensor  # characters of the raw paragraph, `last` included
    last: tf.Tensor  # characters of the raw paragraph, `last` included
    valid: tf.Tensor  # bool


def candidates(options, windows, beams, starts, ends) -> Candidates:
    """Every beam of every window as characters, and whether it may answer."""
    widths = (
        beams["end_top_index"].shape[1] // beams["start_top_index"].shape[1]
    )
    start = tf.repeat(beams["start_top_index"], widths, 1)  # [W, S*E]
    end = beams["end_top_index"]
    limit = windows.length[:, tf.newaxis]
    if options.original_last_token_bug:
        limit -= 1
    valid = (start >= 0) & (start < limit) & (end < limit) & (start <= end)
    valid &= end < start + options.max_answer_length
    inside = tf.clip_by_value(start, 0, tf.maximum(limit - 1, 0))
    valid &= _most_context(windows, inside)
    base = tf.cast(tf.gather(starts.row_starts(), windows.row), tf.int32)
    base = (base + windows.start)[:, tf.newaxis]
    last_token = tf.maximum(tf.size(starts.values) - 1, 0)
    # A lone word mark before the text stands for its first character; see
    # `data.finetuning.squad.features.window_texts`.
    opens = tf.equal(tf.ragged.range(ends.row_lengths()).values, 0)
    ends = ends.with_values(
        tf.where(opens, tf.maximum(ends.values, 1), ends.values)
    )

    def characters(values, place):
        values = tf.concat([values, [0]], 0)
        return tf.gather(values, tf.clip_by_value(base + place, 0, last_token))

    return Candidates(
        tf.repeat(beams["start_top_log_probs"], widths, 1),
        beams["end_top_log_probs"],
        characters(starts.values, inside),
        characters(ends.values, tf.minimum(end, limit)) - 1,
        valid,
    )


def _most_context(windows, token) -> tf.Tensor:
    """bool [W, X]: is this window the one with most context for the token?

    `data.finetuning.squad.predictions.max_context`, in its float64 arithmetic.
    """
    starts = tf.gather(windows.starts, windows.row).to_tensor()  # [W, N]
    lengths = tf.gather(windows.lengths, windows.row).to_tensor()
    position = (windows.start[:, tf.newaxis] + token)[:, :, tf.newaxis]
    left = position - starts[:, tf.newaxis]  # [W, X, N]
    right = (starts + lengths)[:, tf.newaxis] - 1 - position
    score = tf.cast(tf.minimum(left, right), tf.float64)
    score += 0.01 * tf.cast(lengths, tf.float64)[:, tf.newaxis]
    inside = (left >= 0) & (right >= 0)
    score = tf.where(inside, score, -float("inf"))
    best = tf.argmax(score, -1, output_type=tf.int32)
    return tf.equal(best, windows.index[:, tf.newaxis])


def choose(options, windows, found: Candidates, paragraph):
    """N-best answers of distinct text per question, best first."""
    rows = windows.starts.nrows(out_type=tf.int32)
    width = tf.shape(found.first)[1]

    def by_question(values, default):
        ragged = tf.RaggedTensor.from_value_rowids(
            values, windows.row, nrows=rows, validate=False
        )
        dense = ragged.to_tensor(default)  # [B, N, S*E]
        return tf.reshape(dense, [rows, tf.shape(dense)[1] * width])

    worst = 2.0 * EMPTY_LOG_PROB
    score = found.start_log_probs + found.end_log_probs
    score = by_question(tf.where(found.valid, score, worst), worst)
    keep = tf.minimum(_CANDIDATES, tf.shape(score)[1])
    # Equal scores stay in window, start, end order: top_k is stable.
    score, order = tf.math.top_k(score, keep)  # [B, X]

    def pick(values, default):
        return tf.gather(by_question(values, default), order, batch_dims=1)

    first, last = pick(found.first, 0), pick(found.last, -1)
    valid = score > worst
    text, first = _texts(paragraph, first, last, valid)
    fresh = valid & ~_seen_before(text, valid)
    # The first n that are fresh, in order; then empty ones. Others have the
    # rank of no slot, also where there are fewer candidates than slots.
    rank = tf.where(fresh, tf.cumsum(tf.cast(fresh, tf.int32), 1) - 1, -1)
    slots = tf.range(options.n_best_size)[tf.newaxis, :, tf.newaxis]
    hit = tf.equal(rank[:, tf.newaxis], slots)  # [B, n, X]
    there = tf.reduce_any(hit, 2)
    at = tf.argmax(tf.cast(hit, tf.int32), 2, output_type=tf.int32)

    def slot(values, default):
        return tf.where(there, tf.gather(values, at, batch_dims=1), default)

    starts = slot(pick(found.start_log_probs, 0.0), EMPTY_LOG_PROB)
    ends = slot(pick(found.end_log_probs, 0.0), EMPTY_LOG_PROB)
    text = slot(text, "")
    first = slot(first, 0)
    last = first + tf.strings.length(text, "UTF8_CHAR")
    # A list without an answer holds "", which has all of the probability.
    first_or_there = there | tf.equal(slots[:, :, 0], 0)
    probability = tf.nn.softmax(
        tf.where(first_or_there, starts + ends, -float("inf"))
    )
    answers = {
        "nbest_text": text,
        "nbest_start": first,
        "nbest_end": last,
        "nbest_probability": probability,
        "nbest_start_log_prob": starts,
        "nbest_end_log_prob": ends,
    }
    return answers | {
        "answer": text[:, 0],
        "answer_start": first[:, 0],
        "answer_end": last[:, 0],
        "answer_probability": probability[:, 0],
    }


def null_odds(windows, beams, answers, independent: bool) -> tf.Tensor:
    """Evidence for "no answer", float32 [B]; `answers` are those of `choose`.

    `independent` as in `data.finetuning.squad.predictions.answer_question`.
    """
    null = beams["cls_logits"]  # [W]
    if independent:
        null += beams["start_top_log_probs"][:, 0]
        null += beams["end_top_log_probs"][:, 0]
    null = tf.RaggedTensor.from_value_rowids(
        null, windows.row, nrows=windows.starts.nrows(), validate=False
    )
    odds = tf.reduce_min(null, 1)  # [B]
    if not independent:
        return odds
    best = answers["nbest_start_log_prob"] + answers["nbest_end_log_prob"]
    return tf.minimum(odds - best[:, 0], float(MAX_NULL_ODDS))


def _texts(paragraph, first, last, valid):
    """Stripped answers and their first characters, [B, X]."""
    length = tf.strings.length(paragraph, "UTF8_CHAR")[:, tf.newaxis]
    first, last = _without_space(paragraph, first, last)
    first = tf.clip_by_value(first, 0, length)
    size = tf.where(valid, tf.clip_by_value(last + 1, first, length) - first, 0)
    whole = tf.repeat(paragraph[:, tf.newaxis], tf.shape(first)[1], 1)
    # `substr` compares static shapes: these are known to different degrees.
    first, size = (tf.reshape(x, tf.shape(whole)) for x in (first, size))
    return tf.strings.substr(whole, first, size, "UTF8_CHAR"), first


def _without_space(paragraph, first, last):
    """Spans [B, X] without white space at their ends, as `str.strip` sees it.

    A piece may be a bare space.
    """
    points = tf.strings.unicode_decode(paragraph, "UTF-8")
    points = points.to_tensor(default_value=ord(" "))  # [B, C]
    space = tf.constant(white_space())
    space = tf.reduce_any(points[..., tf.newaxis] == space, -1)
    count = tf.shape(points)[1]
    # Places of the other characters, rising; C and -1 where there is none.
    places = tf.sort(tf.where(space, count, tf.range(count)), axis=1)
    places = tf.pad(places, [[0, 0], [0, 1]], constant_values=count)
    after = tf.searchsorted(places, first, side="left")
    places = tf.pad(places, [[0, 0], [1, 0]], constant_values=-1)
    before = tf.searchsorted(places, last, side="right") - 1
    return (
        tf.gather(places, after + 1, batch_dims=1),
        tf.gather(places, before, batch_dims=1),
    )


def _seen_before(text, valid):
    """bool [B, X]: an earlier candidate has the same text."""
    same = tf.equal(text[:, :, tf.newaxis], text[:, tf.newaxis])  # [B, X, X]
    rank = tf.range(tf.shape(text)[1])
    earlier = rank[tf.newaxis] < rank[:, tf.newaxis]
    return tf.reduce_any(same & earlier & valid[:, tf.newaxis], 2)
