"""Document ranking: a query and documents in, scores and their order out.

Letters: B queries, N documents of each, W windows of all of them, T length.
"""

import tensorflow as tf

from common.contract import symbols
from serving.signatures import graph_features
from serving.signatures.sequence import (
    IDS,
    RAW,
    TOKENIZE,
    Context,
    Signature,
    ids_signature,
    layout_of,
    row_length,
    text_spec,
    tokenize_signature,
)

MEANING = "scores of the documents, and their places from the best on"
KNRM = "knrm"
EXAMPLE = {
    "query": ["What did the ticket cost?"],
    "documents": [
        [
            "Nobody asked why.",
            "The ticket cost 12,000 francs in 1998, and nobody asked why.",
        ]
    ],
}
INPUTS = {
    "query": text_spec("query"),
    "documents": text_spec("documents", None),
}


def ranking_signatures(context: Context) -> dict[str, Signature]:
    """Raw text signatures of a cross-encoder (and ids) or of K-NRM."""
    if context.spec.data_options.get("ranker") == KNRM:
        return _kernel_signatures(context)

    def scores_of(features) -> tf.Tensor:
        return tf.cast(context.run(features), tf.float32)[:, 0]  # [W]

    def from_text(query, documents):
        features, row, cut = _passages(context, query, documents)
        best = tf.math.segment_max(scores_of(features), row)  # [B * N]
        return _answer(best, cut, documents)

    return {
        RAW: Signature(from_text, INPUTS, EXAMPLE, MEANING),
        IDS: ids_signature(
            context, lambda features: {"scores": scores_of(features)}
        ),
        TOKENIZE: tokenize_signature(context),
    }


def _answer(scores, cut, documents) -> dict[str, tf.Tensor]:
    """Scores and `truncated` [B * N] as they are given back, [B, N].

    A document is truncated where the end of its text or of the query was not
    read.
    """
    shape = tf.shape(documents)
    scores = tf.reshape(scores, shape)
    return {
        "scores": scores,
        "order": tf.argsort(scores, direction="DESCENDING", stable=True),
        "truncated": tf.reshape(cut, shape),
    }


def _cut(rows: tf.RaggedTensor, length: int) -> tf.RaggedTensor:
    """The first `length` pieces of each row."""
    kept = tf.minimum(tf.cast(rows.row_lengths(), tf.int32), length)
    return graph_features.first_of_rows(rows, kept)


def _passages(context: Context, query, documents):
    """Every window: (features [W, T], its document [W], cut [B * N])."""
    options, length = context.spec.data_options, row_length(context.spec)
    count = tf.shape(documents)[1]
    marks = symbols.row_symbols(layout_of(context.spec))
    whole = context.tokenizer.tokenize(query)
    asked = _cut(whole, options["max_query_length"])
    kept = tf.cast(asked.row_lengths(), tf.int32)  # [B]
    # Tokenizers differ in the type of row lengths.
    shorter = kept < tf.cast(whole.row_lengths(), tf.int32)  # [B]
    read = context.tokenizer.tokenize(tf.reshape(documents, [-1]))
    windows = graph_features.doc_windows(
        tf.cast(read.row_lengths(), tf.int32),
        tf.repeat(length - kept - marks, count),  # [B * N]
        options["passage_stride"] or length,
    )
    most = options["max_passages"] if options["passage_stride"] else 1
    used = windows.index < most
    row = tf.boolean_mask(windows.row, used)
    passages = graph_features.slices_of_rows(
        read,
        row,
        tf.boolean_mask(windows.start, used),
        tf.boolean_mask(windows.length, used),
    )
    asked = tf.gather(asked, row // tf.maximum(count, 1))
    features = context.join([asked, passages])
    cut = windows.starts.row_lengths() > most
    return features, row, cut | tf.repeat(shorter, count)


def _kernel_signatures(context: Context) -> dict[str, Signature]:
    """K-NRM; with `candidate_scores` [B, N] where it was fitted with them."""
    model, options = context.model, context.spec.data_options
    longest = options["max_doc_length"]

    def read(texts, length: int):
        """Vectors, ids, mask of pieces, and whether a text was cut."""
        pieces = context.tokenizer.tokenize(texts)
        cut = pieces.row_lengths() > length
        rows = context.join([_cut(pieces, length)], length + 2)
        states = model.vectors(
            rows.input_ids, rows.segment_ids, rows.input_mask
        )
        # Without CLS and SEP: the last two, or the first and each row's last.
        part, mask = slice(-2), rows.input_mask
        if symbols.is_cls_first(layout_of(context.spec)):
            part = slice(1, -1)
            mask = tf.sequence_mask(
                rows.lengths - 1, tf.shape(mask)[1], mask.dtype
            )
        return states[:, part], rows.input_ids[:, part], mask[:, part], cut

    def from_text(query, documents, candidate_scores=None):
        count = tf.shape(documents)[1]
        *asked, shorter = (
            tf.repeat(x, count, axis=0)
            for x in read(query, options["max_query_length"])
        )
        states, _, mask, cut = read(tf.reshape(documents, [-1]), longest)
        if candidate_scores is not None:
            candidate_scores = tf.reshape(candidate_scores, [-1])
        scores = model(*asked, states, mask, candidate_scores)
        return _answer(scores, cut | shorter, documents)

    inputs, example = dict(INPUTS), dict(EXAMPLE)
    if model.with_candidate_score:
        inputs["candidate_scores"] = tf.TensorSpec(
            [None, None], tf.float32, name="candidate_scores"
        )
        example["candidate_scores"] = [[1.0, 2.0]]
    return {
        RAW: Signature(from_text, inputs, example, MEANING),
        TOKENIZE: tokenize_signature(context),
    }
