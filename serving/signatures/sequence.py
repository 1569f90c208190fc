"""What an exported model can be asked: one builder per head.

A builder returns `Signature`s: a Python function over keyword tensors, the
specs of its inputs and one example request. Every function traces into a
SavedModel signature; none of them takes labels or dropout seeds.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from common.contract import symbols
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning.classifier.sets import THRESHOLD
from serving.signatures import graph_features
from serving.signatures.graph_features import Features

RAW = "serving_default"  # raw text in, answers out
IDS = "ids"  # the model's own inputs in, the same answers out
TOKENIZE = "tokenize"
MAX_TEXTS = 26  # text_a to text_z

EXAMPLE_TEXTS = (
    "It cost 12,000 francs in 1998, and nobody asked why.",
    "A na\u00efve caf\u00e9 \u2013 ``quoted''.",
)


class Signature(NamedTuple):
    """One way to call the exported model."""

    # keyword tensors -> dict of tensors, batch first
    function: Callable[..., dict[str, tf.Tensor]]
    inputs: dict[str, tf.TensorSpec]
    # a small request, values that `tf.constant` takes
    example: dict[str, object]
    meaning: str  # one line for `signature.json`


class Context(NamedTuple):
    """What every builder gets."""

    model: object
    spec: TaskSpec
    tokenizer: tf.Module  # raw text -> ids in the graph (`data.text.opening`)
    ids: symbols.SymbolIds

    def join(
        self,
        parts: list[tf.RaggedTensor],
        longest: int | None = None,
        keep_blank: bool = True,
    ) -> Features:
        """Rows as in training, of the pieces int32 [B, (n)] of each segment.

        A row has at most `longest` tokens; None = the task's.
        """
        return graph_features.join_segments(
            parts,
            longest or row_length(self.spec),
            self.ids,
            padded_length(self.spec),
            keep_blank,
            layout_of(self.spec),
        )

    def run(self, features: Features):
        """What the model gives for rows."""
        return self.model(
            features.input_ids,
            segment_ids=features.segment_ids,
            input_mask=features.input_mask,
            training=False,
        )


def text_spec(name: str, *tail: int | None) -> tf.TensorSpec:
    """String tensor [B, ...]."""
    return tf.TensorSpec([None, *tail], tf.string, name=name)


def int_spec(name: str, *tail: int | None) -> tf.TensorSpec:
    """int32 tensor [B, ...]."""
    return tf.TensorSpec([None, *tail], tf.int32, name=name)


FEATURE_SPECS = {
    name: int_spec(name, None)
    for name in ("input_ids", "segment_ids", "input_mask")
}


def text_names(spec: TaskSpec) -> tuple[str, ...]:
    """Names of the raw-text inputs: `text`, or `text_a`, `text_b`, ...

    Their number is `data_options["num_texts"]`, 1 where it is not given.
    """
    count = int(spec.data_options.get("num_texts", 1))
    if not 1 <= count <= MAX_TEXTS:
        raise UserError(
            f"num_texts in task.json must be 1 to {MAX_TEXTS}, found {count}"
        )
    if count == 1:
        return ("text",)
    return tuple(f"text_{chr(ord('a') + i)}" for i in range(count))


def sequence_signatures(context: Context) -> dict[str, Signature]:
    """Classification, multi-label classification and regression."""
    names = text_names(context.spec)
    spec = context.spec

    def from_features(features: Features) -> dict[str, tf.Tensor]:
        logits = context.run(features)  # [B, Y]
        return answers_of(spec.head, logits, spec.labels, spec.data_options)

    def from_text(**texts):
        parts = [context.tokenizer.tokenize(texts[name]) for name in names]
        features = context.join(parts, keep_blank=False)
        return from_features(features) | {
            "num_tokens": features.lengths,
            "truncated": features.truncated,
        }

    return {
        RAW: Signature(
            from_text,
            {name: text_spec(name) for name in names},
            {name: list(EXAMPLE_TEXTS) for name in names},
            "raw text in, answers out",
        ),
        IDS: ids_signature(context, from_features),
        TOKENIZE: tokenize_signature(context),
    }


def layout_of(spec: TaskSpec) -> str:
    """Of the rows that the model was trained with."""
    return spec.data_options.get("layout", symbols.CLS_LAST)


def row_length(spec: TaskSpec) -> int:
    """Most tokens of a row: T, or all its segments with recurrence."""
    segments = int(spec.data_options.get("segment_recurrence", 0))
    return spec.max_seq_length * max(1, segments)


def padded_length(spec: TaskSpec) -> int | None:
    """Row length where padding enters the result, else None.

    It does with `pooling` "original".
    """
    if spec.head_options.get("pooling") == "original":
        return row_length(spec)
    return None


def example_row(context: Context) -> dict[str, list[int]]:
    """A row of ids; with segment recurrence it takes a second segment."""
    count = 1
    if row_length(context.spec) > context.spec.max_seq_length:
        count = context.spec.max_seq_length
    ids = context.ids
    if symbols.is_cls_first(layout_of(context.spec)):
        return {
            "input_ids": [ids.cls, *[ids.unk] * count, ids.sep],
            "segment_ids": [0] * (count + 2),
            "input_mask": [1] * (count + 2),
        }
    return {
        "input_ids": [*[ids.unk] * count, ids.sep, ids.cls],
        "segment_ids": [*[0] * count, 0, symbols.SEGMENT_CLS],
        "input_mask": [1] * (count + 2),
    }


def ids_signature(context: Context, from_features) -> Signature:
    """The model's own inputs, for callers that tokenize themselves."""

    def from_ids(input_ids, segment_ids, input_mask):
        unused = tf.zeros([0], tf.int32)
        return from_features(
            Features(input_ids, segment_ids, input_mask, unused, unused)
        )

    return Signature(
        from_ids,
        FEATURE_SPECS,
        {name: [row] for name, row in example_row(context).items()},
        "token ids in, answers out; input_mask 1 = real token",
    )


def tokenize_signature(context: Context) -> Signature:
    """Piece ids and character offsets of raw text, padded on the right."""

    def tokenize(text):
        ids, starts, ends = context.tokenizer.tokenize_with_offsets(text)
        return {
            "piece_ids": ids.to_tensor(),
            "piece_starts": starts.to_tensor(),
            "piece_ends": ends.to_tensor(),
            "num_pieces": tf.cast(ids.row_lengths(), tf.int32),
        }

    return Signature(
        tokenize,
        {"text": text_spec("text")},
        {"text": list(EXAMPLE_TEXTS)},
        "piece ids and the raw characters that each came from",
    )


def _class_answer(logits, labels, separator="|", threshold=0.5):
    del separator, threshold
    best = tf.argmax(logits, -1, output_type=tf.int32)  # [B]
    answer = {
        "logits": logits,
        "probabilities": tf.nn.softmax(logits),
        "label_id": best,
    }
    if labels:
        answer["label"] = tf.gather(tf.constant(labels, tf.string), best)
    return answer


def _multi_label_answer(logits, labels, separator="|", threshold=0.5):
    probabilities = tf.sigmoid(logits)
    chosen = logits > math.log(threshold / (1.0 - threshold))  # [B, Y]
    answer = {"logits": logits, "probabilities": probabilities}
    answer["chosen"] = tf.cast(chosen, tf.int32)
    if labels:
        names = tf.RaggedTensor.from_value_rowids(
            tf.gather(tf.constant(labels, tf.string), tf.where(chosen)[:, 1]),
            tf.where(chosen)[:, 0],
            nrows=tf.shape(logits, tf.int64)[0],
            validate=False,
        )
        answer["labels"] = tf.strings.reduce_join(
            names, -1, separator=separator
        )
    return answer


def _regression_answer(logits, labels, separator="|", threshold=0.5):
    del labels, separator, threshold
    return {"value": logits[:, 0]}


_ANSWERS = {
    "classification": _class_answer,
    "multi_label": _multi_label_answer,
    "regression": _regression_answer,
}


def answers_of(head: str, logits, labels, data_options) -> dict:
    """What a SavedModel says of logits [B, Y] of any number type.

    `head` is classification, multi_label or regression; `labels` are in the
    order of the logits, () for none.
    """
    # Of several labels; None where other weights found one.
    threshold = data_options.get(THRESHOLD)
    return _ANSWERS[head](
        tf.cast(logits, tf.float32),
        labels,
        data_options.get("label_separator", "|"),
        0.5 if threshold is None else threshold,
    )


def _of_pieces(
    logits: tf.Tensor, lengths: tf.Tensor, real: tf.Tensor, layout: str
) -> tf.Tensor:
    """Logits [B, pieces, Y] of logits [B, T, Y]; 0 where `real` is false.

    `lengths` are of rows with CLS and SEP; logits at padded positions are
    undefined.
    """
    # Rows are padded on the left: their pieces begin there.
    begin = tf.shape(logits)[1] - lengths
    if symbols.is_cls_first(layout):
        begin = tf.ones_like(lengths)  # after CLS
    position = begin[:, tf.newaxis] + tf.range(tf.shape(real)[1])
    position = tf.minimum(position, tf.shape(logits)[1] - 1)
    logits = tf.gather(logits, position, batch_dims=1)  # [B, (pieces), Y]
    return tf.where(real[:, :, tf.newaxis], logits, 0.0)


def token_signatures(context: Context) -> dict[str, Signature]:
    """One label per piece, with the characters that the piece came from."""
    labels = context.spec.labels

    def logits_of(features):
        return tf.cast(context.run(features), tf.float32)  # [B, T, Y]

    def from_features(features):
        logits = logits_of(features)
        return {
            "logits": logits,
            "label_ids": tf.argmax(logits, -1, output_type=tf.int32),
        }

    def from_text(text):
        ids, starts, ends = context.tokenizer.tokenize_with_offsets(text)
        features = context.join([ids])
        logits = logits_of(features)
        count = features.lengths - 2  # [B], without SEP and CLS
        width = tf.reduce_max(tf.concat([count, [0]], 0))
        real = tf.sequence_mask(count, width)
        logits = _of_pieces(
            logits, features.lengths, real, layout_of(context.spec)
        )
        best = tf.argmax(logits, -1, output_type=tf.int32)
        answer = {
            "logits": logits,
            "label_ids": tf.where(real, best, -1),
            "piece_starts": starts.to_tensor()[:, :width],
            "piece_ends": ends.to_tensor()[:, :width],
            "num_pieces": count,
            "truncated": features.truncated,
        }
        if labels:
            names = tf.gather(tf.constant(labels, tf.string), best)
            answer["labels"] = tf.where(real, names, "")
        return answer

    return {
        RAW: Signature(
            from_text,
            {"text": text_spec("text")},
            {"text": list(EXAMPLE_TEXTS)},
            "raw text in, a label per piece out; beyond a row's end -1, '' "
            "and logits of 0",
        ),
        IDS: ids_signature(context, from_features),
        TOKENIZE: tokenize_signature(context),
    }
