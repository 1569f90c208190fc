"""Extractive question answering in the graph: text in, answers with spans out.

Windows (`data.finetuning.squad.features`), beams (`modeling.SpanModel`) and the choice of
answers (`data.finetuning.squad.predictions`) as one function. The windows of all
questions of a batch run through the model in chunks, so a paragraph of any
length takes the memory of `_CHUNK` windows.
"""

from typing import NamedTuple

import tensorflow as tf

from data import symbols
from data.finetuning.options import SquadDataOptions, require_paragraph_room
from data.finetuning.squad.predictions import EMPTY_LOG_PROB
from data.text.graph_text import white_space
from modeling.heads.question_answering import SpanOutput
from serving.signatures import graph_features
from serving.signatures.sequence import (
    FEATURE_SPECS,
    IDS,
    RAW,
    TOKENIZE,
    Context,
    Signature,
    int_spec,
    text_spec,
    tokenize_signature,
)

_CHUNK = 16  # windows in one call of the model
_CANDIDATES = 256  # best spans of a question that are told apart by text

EXAMPLE = {
    "question": ["What did the ticket cost?", "Who asked?"],
    "paragraph": [
        "The ticket cost 12,000 francs in 1998.",
        "Nobody asked why the na\u00efve caf\u00e9 owner paid.",
    ],
}


class Options(NamedTuple):
    """The task's `data_options`, defaults of `SquadDataOptions`."""

    max_query_length: int
    doc_stride: int
    n_best_size: int
    max_answer_length: int
    original_last_token_bug: bool
    null_score_diff_threshold: float | None


class Candidates(NamedTuple):
    """Valid spans of all windows: float32 / int32 [W, S*E].

    Attributes:
      start_log_probs, end_log_probs: scores.
      first, last: characters of the raw paragraph, `last` included.
      valid: bool.
    """

    start_log_probs: tf.Tensor
    end_log_probs: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    valid: tf.Tensor


def span_signatures(context: Context) -> dict[str, Signature]:
    """Question + paragraph -> n-best answers, character spans, null odds.

    Raises:
      UserError: a window cannot hold the longest question.
    """
    given = context.spec.data_options
    options = Options(
        *(given.get(f, getattr(SquadDataOptions, f)) for f in Options._fields)
    )
    require_paragraph_room(
        context.spec.max_seq_length, options.max_query_length
    )

    def from_ids(input_ids, segment_ids, input_mask, paragraph_mask, cls_index):
        return context.model(
            input_ids,
            paragraph_mask=paragraph_mask,
            cls_index=cls_index,
            segment_ids=segment_ids,
            input_mask=input_mask,
            training=False,
        )._asdict()

    def from_text(question, paragraph):
        return _answer(context, options, question, paragraph)

    ids = context.ids
    # Six different pieces: equal ones would tie in an untrained model.
    piece = context.tokenizer.vocab_size // 2
    return {
        RAW: Signature(
            from_text,
            {n: text_spec(n) for n in ("question", "paragraph")},
            EXAMPLE,
            "answers, best first; answer_start and answer_end are characters "
            "of the paragraph (end excluded); null_odds > 0 speaks for none; "
            f"answer is empty where they exceed "
            f"{options.null_score_diff_threshold}",
        ),
        IDS: Signature(
            from_ids,
            FEATURE_SPECS
            | {
                "paragraph_mask": int_spec("paragraph_mask", None),
                "cls_index": int_spec("cls_index"),
            },
            {
                "input_ids": [
                    [
                        *range(piece, piece + 6),
                        *(ids.sep, ids.unk, ids.sep, ids.cls),
                    ]
                ],
                "segment_ids": [[0, 0, 0, 0, 0, 0, 0, 1, 1, 2]],
                "input_mask": [[1] * 10],
                "paragraph_mask": [[1, 1, 1, 1, 1, 1, 0, 0, 0, 1]],
                "cls_index": [9],
            },
            "a window's beams; end j of start i at i * E + j",
        ),
        TOKENIZE: tokenize_signature(context),
    }


def _answer(context: Context, options: Options, question, paragraph):
    query = context.tokenizer.tokenize(question)
    query_length = tf.minimum(
        tf.cast(query.row_lengths(), tf.int32), options.max_query_length
    )
    query = graph_features.first_of_rows(query, query_length)
    tokens, starts, ends = context.tokenizer.tokenize_with_offsets(paragraph)
    counts = tf.cast(tokens.row_lengths(), tf.int32)
    room = context.spec.max_seq_length - query_length - 3
    windows = graph_features.doc_windows(counts, room, options.doc_stride)
    features = _features(context, windows, tokens, query, query_length)
    beams = _run_in_chunks(context.model, features)
    found = _candidates(options, windows, beams, starts, ends)
    answers = _choose(options, windows, found, paragraph)
    cls_logits = tf.RaggedTensor.from_value_rowids(
        beams["cls_logits"],
        windows.row,
        nrows=tf.size(counts),
        validate=False,
    )
    answers["null_odds"] = tf.reduce_min(cls_logits, 1)
    answers |= _unanswered(options, answers)
    answers["num_windows"] = tf.cast(cls_logits.row_lengths(), tf.int32)
    return answers


def _unanswered(options: Options, answers: dict) -> dict[str, tf.Tensor]:
    """The answer, "" where the null odds exceed the task's threshold."""
    threshold = options.null_score_diff_threshold
    if threshold is None:
        return {}
    none = answers["null_odds"] > threshold
    return {
        "answer": tf.where(none, "", answers["answer"]),
        "answer_start": tf.where(none, 0, answers["answer_start"]),
        "answer_end": tf.where(none, 0, answers["answer_end"]),
    }


def _features(context, windows, tokens, query, query_length):
    """`P SEP Q SEP CLS` of every window, padded on the right."""
    ids = context.ids
    count = tf.size(windows.row)
    part = graph_features.slices_of_rows(
        tokens, windows.row, windows.start, windows.length
    )
    query = tf.gather(query, windows.row)

    def column(value):
        return tf.RaggedTensor.from_row_lengths(
            tf.fill([count], value), tf.ones([count], tf.int64), validate=False
        )

    def like(rows, value):
        return rows.with_values(tf.fill(tf.shape(rows.values), value))

    pieces = [part, column(ids.sep), query, column(ids.sep), column(ids.cls)]
    kinds = (
        symbols.SEGMENT_A,
        symbols.SEGMENT_A,
        symbols.SEGMENT_B,
        symbols.SEGMENT_B,
        symbols.SEGMENT_CLS,
    )
    input_ids = tf.concat(pieces, 1)
    segments = tf.concat(
        [like(p, k) for p, k in zip(pieces, kinds, strict=True)], 1
    )
    cls_index = windows.length + tf.gather(query_length, windows.row) + 2
    input_ids = input_ids.to_tensor()
    place = tf.range(tf.shape(input_ids)[1])[tf.newaxis]
    at_cls = tf.equal(place, cls_index[:, tf.newaxis])
    in_paragraph = place < windows.length[:, tf.newaxis]
    return {
        "input_ids": input_ids,
        "segment_ids": segments.to_tensor(symbols.SEGMENT_Q),
        "input_mask": tf.cast(place <= cls_index[:, tf.newaxis], tf.int32),
        "paragraph_mask": tf.cast(in_paragraph | at_cls, tf.int32),
        "cls_index": cls_index,
    }


def _run_in_chunks(model, features) -> dict[str, tf.Tensor]:
    """The model's beams of all windows, `_CHUNK` windows at a time."""
    total = tf.shape(features["input_ids"])[0]
    # A beam cannot be wider than the row is long.
    widest = tf.maximum(model.start_n_top, model.end_n_top)
    gap = tf.maximum(widest - tf.shape(features["input_ids"])[1], 0)
    fills = {"segment_ids": symbols.SEGMENT_Q}
    features = {
        name: tf.pad(
            value, [[0, 0], [0, gap]], constant_values=fills.get(name, 0)
        )
        if name != "cls_index"
        else value
        for name, value in features.items()
    }

    def run(begin):
        chunk = {k: v[begin : begin + _CHUNK] for k, v in features.items()}
        return model(**chunk, training=False)._asdict()

    def body(begin, arrays):
        beams = run(begin)
        arrays = [
            a.write(begin // _CHUNK, beams[name])
            for a, name in zip(arrays, names, strict=True)
        ]
        return begin + _CHUNK, arrays

    names = SpanOutput._fields
    dtypes = (tf.float32, tf.int32, tf.float32, tf.int32, tf.float32)
    s, e = model.start_n_top, model.end_n_top
    shapes = ([None, s], [None, s], [None, s * e], [None, s * e], [None])
    arrays = [
        tf.TensorArray(
            d, size=0, dynamic_size=True, infer_shape=False, element_shape=shape
        )
        for d, shape in zip(dtypes, shapes, strict=True)
    ]
    _, arrays = tf.while_loop(
        lambda begin, _: begin < total,
        body,
        (tf.constant(0), arrays),
        parallel_iterations=1,
    )
    return {n: a.concat() for n, a in zip(names, arrays, strict=True)}


def _candidates(options, windows, beams, starts, ends) -> Candidates:
    """Every beam of every window as characters, and whether it may answer."""
    widths = (
        beams["end_top_index"].shape[1] // beams["start_top_index"].shape[1]
    )
    start = tf.repeat(beams["start_top_index"], widths, 1)  # [W, S*E]
    end = beams["end_top_index"]
    limit = windows.length[:, tf.newaxis]
    if options.original_last_token_bug:
        limit -= 1
    valid = (start < limit) & (end < limit) & (start <= end)
    valid &= end < start + options.max_answer_length
    inside = tf.minimum(start, tf.maximum(limit - 1, 0))
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
    place = (windows.start[:, tf.newaxis] + token)[:, :, tf.newaxis]
    left = place - starts[:, tf.newaxis]  # [W, X, N]
    right = (starts + lengths)[:, tf.newaxis] - 1 - place
    score = tf.cast(tf.minimum(left, right), tf.float64)
    score += 0.01 * tf.cast(lengths, tf.float64)[:, tf.newaxis]
    inside = (left >= 0) & (right >= 0)
    score = tf.where(inside, score, -float("inf"))
    best = tf.argmax(score, -1, output_type=tf.int32)
    return tf.equal(best, windows.index[:, tf.newaxis])


def _choose(options, windows, found: Candidates, paragraph):
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
    # The first n that are fresh, in order; then empty ones.
    rank = tf.where(fresh, tf.cumsum(tf.cast(fresh, tf.int32), 1) - 1, keep)
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
    probability = tf.nn.softmax(starts + ends)
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
    place = tf.range(tf.shape(text)[1])
    earlier = place[tf.newaxis] < place[:, tf.newaxis]
    return tf.reduce_any(same & earlier & valid[:, tf.newaxis], 2)
