"""Multiple choice (RACE): passage, question and options in, a choice out."""

import tensorflow as tf

from data.finetuning.options import RaceDataOptions
from serving.signatures import graph_features
from serving.signatures.sequence import (
    IDS,
    RAW,
    TOKENIZE,
    Context,
    Signature,
    example_row,
    int_spec,
    text_spec,
    tokenize_signature,
)

EXAMPLE = {
    "passage": ["The ticket cost 12,000 francs in 1998. Nobody asked why."],
    "question": ["It was bought in _ ."],
    "options": [["1998", "2000", "a caf\u00e9", "Paris"]],
}


def question_with_option(question: tf.Tensor, option: tf.Tensor) -> tf.Tensor:
    """`data.finetuning.race.examples.question_with_option` of two [N] tensors."""
    question = tf.strings.regex_replace(question, "_+", "_")
    parts = tf.strings.split(question, "_")  # [N, (parts)]
    # "" splits into no part at all.
    parts = tf.cond(
        tf.reduce_any(parts.row_lengths() < 1),
        lambda: tf.strings.split(tf.strings.join([question, "_"]), "_")[:, :-1],
        lambda: parts,
    )
    rows = parts.value_rowids()
    is_last = tf.concat([rows[1:] != rows[:-1], [True]], 0)[: tf.size(rows)]
    glue = tf.where(is_last, "", tf.gather(option, rows))
    joined = parts.with_values(tf.strings.join([parts.values, glue]))
    filled = tf.strings.reduce_join(joined, -1)
    followed = tf.strings.join([question, option], " ")
    return tf.where(parts.row_lengths() > 1, filled, followed)


def choice_of(logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """What a SavedModel says of logits [B, C] of any number type."""
    logits = tf.cast(logits, tf.float32)
    return {
        "logits": logits,
        "probabilities": tf.nn.softmax(logits),
        "choice": tf.argmax(logits, -1, output_type=tf.int32),
    }


def choice_signatures(context: Context) -> dict[str, Signature]:
    """Raw text and ids signatures of a multiple-choice model."""
    longest = int(
        context.spec.data_options.get(
            "max_qa_length", RaceDataOptions.max_qa_length
        )
    )

    def from_ids(input_ids, segment_ids, input_mask):
        logits = context.model(
            input_ids,
            segment_ids=segment_ids,
            input_mask=input_mask,
            training=False,
        )
        return choice_of(logits)

    def from_text(passage, question, options):
        *inputs, cut = _inputs(context, longest, passage, question, options)
        return from_ids(*inputs) | {"truncated": cut}

    return {
        RAW: Signature(
            from_text,
            {
                "passage": text_spec("passage"),
                "question": text_spec("question"),
                "options": text_spec("options", None),
            },
            EXAMPLE,
            "a choice among the options; `_` in the question stands for them",
        ),
        IDS: Signature(
            from_ids,
            {
                name: int_spec(name, None, None)
                for name in ("input_ids", "segment_ids", "input_mask")
            },
            _example(context),
            "token ids [B, C, T] in, a choice out",
        ),
        TOKENIZE: tokenize_signature(context),
    }


def _example(context: Context) -> dict[str, list]:
    """Two options that differ: which of two equal ones is taken depends on the
    machine's rounding, and an export is compared with its model."""
    row, ids = example_row(context), context.ids
    other = [ids.sep if i == ids.unk else i for i in row["input_ids"]]
    pair = {name: [[value, value]] for name, value in row.items()}
    return pair | {"input_ids": [[row["input_ids"], other]]}


def _inputs(context: Context, longest: int, passage, question, options):
    """Ids, segment ids and mask [B, C, T] of texts [B], [B] and [B, C].

    Question and option keep their last `longest` pieces. Last comes whether any
    text was cut, [B].
    """
    count = tf.shape(options)[1]
    asked = question_with_option(
        tf.repeat(question, count), tf.reshape(options, [-1])
    )
    tail = context.tokenizer.tokenize(asked)  # [B*C, (pieces)]
    length = tf.cast(tail.row_lengths(), tf.int32)
    kept = tf.minimum(length, longest)
    rows = tf.range(tf.size(length))
    tail = graph_features.slices_of_rows(tail, rows, length - kept, kept)
    passage_of = tf.repeat(tf.range(tf.size(passage)), count)
    passages = tf.gather(context.tokenizer.tokenize(passage), passage_of)
    features = context.join([passages, tail])
    width = tf.shape(features.input_ids)[1]
    cut = features.truncated | (length > kept)
    return (
        *(tf.reshape(x, [-1, count, width]) for x in features[:3]),
        tf.reduce_any(tf.reshape(cut, [-1, count]), 1),
    )
