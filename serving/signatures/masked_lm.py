"""Hidden places filled by a masked language model (BERT, ALBERT, ModernBERT).

Letters: B batch, T row length, D model, V vocabulary, P masks, K choices.
"""

import tensorflow as tf

from common.contract import symbols
from serving.generation.masked_fill import not_offered
from serving.signatures import graph_features
from serving.signatures.sequence import Context, Signature, text_spec

_TOP = 10  # pieces given for each mask
_EXAMPLES = ["It cost <mask> francs.", "<mask> asked <mask>."]


def fill_signature(context: Context) -> Signature:
    """`fill_mask` of an encoder without an order."""
    return Signature(
        lambda text: _fill(context, text),
        {"text": text_spec("text")},
        {"text": _EXAMPLES},
        "fills <mask>s, each by itself: no place knows what another one was "
        "filled with",
    )


def _fill(context: Context, text: tf.Tensor) -> dict[str, tf.Tensor]:
    tokenizer = context.tokenizer
    features = graph_features.join_segments(
        [masked_ids(context, text)],
        context.spec.max_seq_length,
        context.ids,
        layout=symbols.CLS_FIRST,
    )
    ids = features.input_ids  # [B, T]
    is_mask = tf.equal(ids, context.ids.mask)
    is_mask &= tf.cast(features.input_mask, tf.bool)
    count = tf.reduce_sum(tf.cast(is_mask, tf.int32), 1)  # [B]
    places = tf.RaggedTensor.from_row_lengths(
        tf.cast(tf.where(is_mask)[:, 1], tf.int32), count, validate=False
    ).to_tensor()  # [B, P]
    output = context.run(features)
    hidden = tf.gather(output.sequence_output, places, batch_dims=1)
    shares = tf.nn.softmax(context.model.lm_logits(hidden))  # [B, P, V]
    # As they are: what is not offered keeps its share.
    pieces, size = tokenizer.vocab_size, context.model.config.vocab_size
    banned = tf.constant(not_offered(context.ids, pieces, size))  # [V]
    offered = tf.where(banned, -1.0, shares)
    top, index = tf.math.top_k(offered, _TOP)  # [B, P, K]
    there = tf.sequence_mask(count, tf.shape(places)[1])[:, :, tf.newaxis]
    first = tf.where(there[:, :, 0], index[:, :, 0], 0)
    at = tf.where(is_mask)
    filled = tf.tensor_scatter_nd_update(
        ids, at, tf.boolean_mask(first, there[:, :, 0])
    )
    lengths = features.lengths - 2
    rows = tf.RaggedTensor.from_tensor(filled[:, 1:], lengths=lengths)
    return {
        "pieces": tokenizer.id_to_piece(tf.where(there, index, 0)),
        "probabilities": tf.where(there, top, 0.0),
        "filled": tokenizer.detokenize(rows),
        "num_masks": count,
        "truncated": features.truncated,
        "independent": tf.ones_like(features.truncated),
    }


def masked_ids(context: Context, text: tf.Tensor) -> tf.RaggedTensor:
    """int32 [B, (pieces)] with the mask's id at each `<mask>`."""
    tokenizer, mask = context.tokenizer, context.ids.mask
    if hasattr(tokenizer, "tokenize_masked"):
        return tokenizer.tokenize_masked(text, mask)
    # Released tokenizers read their own symbol in a text.
    with tf.init_scope():  # a text that the graph holds, not one it makes
        own = tokenizer.id_to_piece(tf.constant(mask)).numpy().decode()
    return tokenizer.tokenize(tf.strings.regex_replace(text, symbols.MASK, own))
