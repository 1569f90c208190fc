"""Extractive question answering in the graph: text in, answers with spans out.

Windows (`data.finetuning.squad.features`), beams (`modeling.SpanModel`) and the choice of
answers (`data.finetuning.squad.predictions`) as one function. The windows of all
questions of a batch run through the model in chunks, so a paragraph of any
length takes the memory of `_CHUNK` windows.
"""

import tensorflow as tf

from common.contract import symbols
from data.finetuning.options import SquadDataOptions, require_paragraph_room
from modeling.heads.question_answering import SpanOutput
from serving.signatures import graph_features, span_answers
from serving.signatures.sequence import (
    FEATURE_SPECS,
    IDS,
    RAW,
    TOKENIZE,
    Context,
    Signature,
    int_spec,
    layout_of,
    text_spec,
    tokenize_signature,
)
from serving.signatures.span_answers import Options

_CHUNK = 16  # windows in one call of the model

EXAMPLE = {
    "question": ["What did the ticket cost?", "Who asked?"],
    "paragraph": [
        "The ticket cost 12,000 francs in 1998.",
        "Nobody asked why the na\u00efve caf\u00e9 owner paid.",
    ],
}


def span_signatures(context: Context) -> dict[str, Signature]:
    """Question + paragraph -> n-best answers, character spans, null odds.

    Raises UserError: a window cannot hold the longest question.
    """
    data_options = context.spec.data_options
    options = Options(
        *(
            data_options.get(f, getattr(SquadDataOptions, f))
            for f in Options._fields
        )
    )
    require_paragraph_room(
        context.spec.max_seq_length,
        options.max_query_length,
        layout_of(context.spec),
    )

    def from_ids(input_ids, segment_ids, input_mask, paragraph_mask, cls_index):
        return context.model(
            input_ids,
            paragraph_mask=paragraph_mask,
            cls_index=cls_index,
            segment_ids=segment_ids,
            input_mask=input_mask,
            training=False,
            longest=options.max_answer_length,
        )._asdict()

    def from_text(question, paragraph):
        return _answer(context, options, question, paragraph)

    return {
        RAW: Signature(
            from_text,
            {n: text_spec(n) for n in ("question", "paragraph")},
            EXAMPLE,
            "answers, best first; answer_start and answer_end are characters "
            "of the paragraph (end excluded); null_odds > 0 favours no answer; "
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
            _example_window(context),
            "a window's beams; end j of start i at i * E + j",
        ),
        TOKENIZE: tokenize_signature(context),
    }


def _cls_first(context: Context) -> bool:
    return symbols.is_cls_first(layout_of(context.spec))


def _between(context: Context) -> tuple[int, ...]:
    """Ids between question and paragraph."""
    return symbols.between(layout_of(context.spec), context.ids)


def _segments(context: Context) -> tuple[int, int]:
    """Of the first text and of the second."""
    one = symbols.has_one_segment(layout_of(context.spec))
    return symbols.SEGMENT_A, symbols.SEGMENT_A if one else symbols.SEGMENT_B


def _example_window(context: Context) -> dict[str, list]:
    """Six different pieces: equal ones would tie in an untrained model."""
    ids, piece = context.ids, context.tokenizer.vocab_size // 2
    pieces = range(piece, piece + 6)
    if _cls_first(context):
        head = [ids.cls, ids.unk, *_between(context)]
        a, b = _segments(context)
        hidden = [0] * (len(head) - 1)
        return {
            "input_ids": [[*head, *pieces, ids.sep]],
            "segment_ids": [[*[a] * len(head), *[b] * 7]],
            "input_mask": [[1] * (len(head) + 7)],
            "paragraph_mask": [[1, *hidden, 1, 1, 1, 1, 1, 1, 0]],
            "cls_index": [0],
        }
    tail = (ids.sep, ids.unk, ids.sep, ids.cls)
    return {
        "input_ids": [[*pieces, *tail]],
        "segment_ids": [[0, 0, 0, 0, 0, 0, 0, 1, 1, 2]],
        "input_mask": [[1] * 10],
        "paragraph_mask": [[1, 1, 1, 1, 1, 1, 0, 0, 0, 1]],
        "cls_index": [9],
    }


def _answer(context: Context, options: Options, question, paragraph):
    query = context.tokenizer.tokenize(question)
    asked = tf.cast(query.row_lengths(), tf.int32)
    query_length = tf.minimum(asked, options.max_query_length)
    query = graph_features.first_of_rows(query, query_length)
    tokens, starts, ends = context.tokenizer.tokenize_with_offsets(paragraph)
    counts = tf.cast(tokens.row_lengths(), tf.int32)
    marks = symbols.row_symbols(layout_of(context.spec))
    room = context.spec.max_seq_length - query_length - marks
    windows = graph_features.doc_windows(counts, room, options.doc_stride)
    features = _features(context, windows, tokens, query, query_length)
    blank = symbols.SEGMENT_A if _cls_first(context) else symbols.SEGMENT_Q
    beams = _run_in_chunks(
        context.model, features, blank, options.max_answer_length
    )
    if _cls_first(context):  # places of the row -> of the paragraph
        first = tf.gather(query_length, windows.row) + marks - 1
        first = first[:, tf.newaxis]
        for name in ("start_top_index", "end_top_index"):
            beams[name] -= first
    candidates = span_answers.candidates(options, windows, beams, starts, ends)
    answers = span_answers.choose(options, windows, candidates, paragraph)
    answers["null_odds"] = span_answers.null_odds(
        windows, beams, answers, context.model.independent
    )
    answers |= _unanswered(options, answers)
    num_windows = windows.starts.row_lengths()
    answers["num_windows"] = tf.cast(num_windows, tf.int32)
    answers["truncated"] = asked > query_length  # the question
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
    """`P SEP Q SEP CLS` of every window, or `CLS Q SEP P SEP`, padded right."""
    ids = context.ids
    count = tf.size(windows.row)
    part = graph_features.slices_of_rows(
        tokens, windows.row, windows.start, windows.length
    )
    query = tf.gather(query, windows.row)

    sep, cls = (graph_features.column(i, count) for i in (ids.sep, ids.cls))
    between = [graph_features.column(i, count) for i in _between(context)]
    a, b = _segments(context)
    pieces = [part, sep, query, sep, cls]
    kinds = [a, a, b, b, symbols.SEGMENT_CLS]
    if _cls_first(context):
        pieces = [cls, query, *between, part, sep]
        kinds = [a, a, *[a] * len(between), b, b]
    input_ids = tf.concat(pieces, 1)
    segments = tf.concat(list(map(graph_features.filled, pieces, kinds)), 1)
    asked = tf.gather(query_length, windows.row)  # [W]
    last = windows.length + asked + len(between) + 1
    first, cls_index, blank = tf.zeros_like(last), last, symbols.SEGMENT_Q
    if _cls_first(context):
        first, blank = asked + len(between) + 1, a
        cls_index = tf.zeros_like(last)
    input_ids = input_ids.to_tensor()
    position = tf.range(tf.shape(input_ids)[1])[tf.newaxis]
    at_cls = tf.equal(position, cls_index[:, tf.newaxis])
    in_paragraph = position < (first + windows.length)[:, tf.newaxis]
    in_paragraph &= position >= first[:, tf.newaxis]
    return {
        "input_ids": input_ids,
        "segment_ids": segments.to_tensor(blank),
        "input_mask": tf.cast(position <= last[:, tf.newaxis], tf.int32),
        "paragraph_mask": tf.cast(in_paragraph | at_cls, tf.int32),
        "cls_index": cls_index,
    }


def _run_in_chunks(model, features, blank, longest) -> dict[str, tf.Tensor]:
    """The model's beams of all windows, `_CHUNK` windows at a time.

    `blank` is the segment of padding, `longest` of answers.
    """
    total = tf.shape(features["input_ids"])[0]
    # A beam cannot be wider than the row is long.
    widest = tf.maximum(model.start_n_top, model.end_n_top)
    gap = tf.maximum(widest - tf.shape(features["input_ids"])[1], 0)
    fills = {"segment_ids": blank}
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
        return model(**chunk, training=False, longest=longest)._asdict()

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
