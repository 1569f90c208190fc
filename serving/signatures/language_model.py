"""The language model as signatures: embeddings, filling, a document's stream.

`encode` and `score` carry memory as explicit inputs and outputs, so that a
caller streams a document of any length, segment by segment: the new memory of
one call is the memory of the next. Begin with zeros and `memory_length` 0.
Only the last segment may have padding, on its right.

Letters: B batch, T segment length, M memory slots, L layers, D model, P masks.
"""

import tensorflow as tf

from common.contract import symbols
from modeling.encoders.registry import spec_of
from serving.signatures import graph_features
from serving.signatures.continuation import continuation_signature
from serving.signatures.masked_lm import fill_signature, masked_ids
from serving.signatures.sequence import (
    RAW,
    TOKENIZE,
    Context,
    Signature,
    int_spec,
    text_spec,
    tokenize_signature,
)

_TOP = 10  # pieces given for each mask
DEFAULT_MEMORY = 384  # slots kept where the config names none


def lm_signatures(context: Context) -> dict[str, Signature]:
    """Every signature of a pretrained model.

    Streams and continuation need memory and a query stream; an encoder without
    them fills each place by itself.
    """
    text = {"text": text_spec("text")}
    signatures = {
        RAW: Signature(
            lambda text: _embed(context, text),
            text,
            {"text": ["It cost 12,000 francs.", "Nobody asked."]},
            "raw text in; vectors of the text (mean of its pieces, and CLS)",
        ),
        TOKENIZE: tokenize_signature(context),
    }
    if not _capabilities(context).query_stream:
        return signatures | {"fill_mask": fill_signature(context)}
    return signatures | {
        "fill_mask": Signature(
            lambda text: _fill(context, text),
            text,
            {"text": ["It cost <mask> francs.", "<mask> asked <mask>."]},
            "fills <mask>s from left to right; each factor is conditional on "
            "the first choices before it",
        ),
        **_stream_signatures(context),
        "generate_text": continuation_signature(context),
    }


def _capabilities(context: Context):
    return spec_of(context.model.config.model_type).capabilities


def _stream_signatures(context: Context) -> dict[str, Signature]:
    """`encode` and `score`, which carry memory from call to call."""
    config = context.model.config
    slots = config.mem_len or DEFAULT_MEMORY
    stream, example = _stream_inputs(context)

    def encode(input_ids, input_mask, memory, memory_length):
        output = context.model(
            input_ids,
            input_mask=input_mask,
            memory=_per_layer(memory, config.n_layer),
            memory_length=memory_length,
            training=False,
            output_hidden_states=True,
        )
        hidden = tf.cast(output.sequence_output, tf.float32)
        return {"sequence_output": hidden} | _new_memory(
            output.hidden_states, memory, memory_length, slots
        )

    def score(input_ids, input_mask, memory, memory_length):
        batch, length = tf.shape(input_ids)[0], tf.shape(input_ids)[1]
        position = tf.tile(tf.range(length)[tf.newaxis], [batch, 1])
        output = context.model(
            input_ids,
            input_mask=input_mask,
            ranks=position,
            is_target=tf.ones_like(position),
            target_positions=position,
            memory=_per_layer(memory, config.n_layer),
            memory_length=memory_length,
            training=False,
            output_hidden_states=True,
        )
        logits = context.model.lm_logits(output.query_output)  # [B, T, V]
        log_probs = tf.gather(
            tf.nn.log_softmax(logits), input_ids, batch_dims=2
        )
        log_probs *= tf.cast(input_mask, tf.float32)
        return {"token_log_probs": log_probs} | _new_memory(
            output.hidden_states, memory, memory_length, slots
        )

    return {
        "encode": Signature(
            encode, stream, example, "a segment and memory in, both out"
        ),
        "score": Signature(
            score,
            stream,
            example,
            "left-to-right log-probability of each token given the memory",
        ),
    }


def _stream_inputs(context: Context) -> tuple[dict, dict]:
    """(specifications, example) of a segment and the memory before it."""
    config = context.model.config
    specs = {
        "input_ids": int_spec("input_ids", None),
        "input_mask": int_spec("input_mask", None),
        "memory": tf.TensorSpec(
            [None, config.n_layer, None, config.d_model],
            tf.float32,
            name="memory",
        ),
        "memory_length": int_spec("memory_length"),
    }
    example = {
        "input_ids": [[context.ids.eod, 9 % config.vocab_size]],
        "input_mask": [[1, 1]],
        "memory": tf.zeros([1, config.n_layer, 1, config.d_model]).numpy(),
        "memory_length": [0],
    }
    return specs, example


def _per_layer(memory: tf.Tensor, n_layer: int) -> tuple[tf.Tensor, ...]:
    """[B, L, M, D] -> L tensors [B, M, D]."""
    return tuple(tf.unstack(memory, n_layer, axis=1))


def _new_memory(states, memory, memory_length, slots):
    """The last `slots` of [memory, inputs of every layer]."""
    inputs = tf.stack(states[:-1], 1)  # [B, L, T, D]
    joined = tf.concat([memory, tf.cast(inputs, memory.dtype)], 2)
    joined = joined[:, :, -slots:]
    length = memory_length + tf.shape(inputs)[2]
    return {
        "new_memory": joined,
        "new_memory_length": tf.minimum(length, slots),
    }


def _embed(context: Context, text: tf.Tensor) -> dict[str, tf.Tensor]:
    ids = context.tokenizer.tokenize(text)
    layout = _capabilities(context).layout
    features = graph_features.join_segments(
        [ids], context.spec.max_seq_length, context.ids, layout=layout
    )
    output = context.run(features)
    hidden = tf.cast(output.sequence_output, tf.float32)  # [B, T, D]
    weights = features.input_mask
    if layout == symbols.CLS_LAST:  # padding, pieces, SEP, CLS
        cls, part = -1, slice(-2)
    else:  # CLS, pieces, SEP, padding
        cls, part = 0, slice(1, None)
        weights = tf.sequence_mask(
            features.lengths - 1, tf.shape(weights)[1], weights.dtype
        )
    weights = tf.cast(weights, tf.float32)[:, part]
    total = tf.einsum("btd,bt->bd", hidden[:, part], weights)
    count = tf.reduce_sum(weights, 1, keepdims=True)  # [B, 1]
    # A text may have no pieces: as in `serving.embed` it has the vector of CLS.
    mean = tf.where(count > 0.0, total / tf.maximum(count, 1.0), hidden[:, cls])
    return {
        "embedding": mean,
        "cls": hidden[:, cls],
        "num_tokens": features.lengths,
        "truncated": features.truncated,
    }


def _fill(context: Context, text: tf.Tensor) -> dict[str, tf.Tensor]:
    ids, mask, truncated = _masked_rows(context, text)  # [B, T], [B, T], [B]
    hidden = tf.equal(ids, context.ids.mask) & tf.cast(mask, tf.bool)
    rank = tf.where(hidden, tf.cumsum(tf.cast(hidden, tf.int32), 1) - 1, -1)
    count = tf.reduce_sum(tf.cast(hidden, tf.int32), 1)  # [B]
    widest = tf.reduce_max(tf.concat([count, [0]], 0))  # P
    never = context.ids.never_filled()  # symbols that are never text
    size = context.model.config.vocab_size
    banned = tf.constant([i in never for i in range(size)])  # [V]

    def body(step, ids, pieces, probabilities):
        position = tf.argmax(
            tf.cast(tf.equal(rank, step), tf.int32), 1, output_type=tf.int32
        )  # [B]
        output = context.model(
            ids,
            input_mask=mask,
            ranks=rank,
            is_target=hidden,
            target_positions=position[:, tf.newaxis],
            training=False,
        )
        logits = context.model.lm_logits(output.query_output)[:, 0]  # [B, V]
        logits = tf.where(banned, -float("inf"), logits)
        top, index = tf.math.top_k(tf.nn.softmax(logits), _TOP)
        at = tf.equal(rank, step)
        ids = tf.where(at, index[:, :1], ids)
        there = (step < count)[:, tf.newaxis]
        return (
            step + 1,
            ids,
            pieces.write(step, tf.where(there, index, 0)),
            probabilities.write(step, tf.where(there, top, 0.0)),
        )

    arrays = [
        tf.TensorArray(d, size=0, dynamic_size=True, element_shape=[None, _TOP])
        for d in (tf.int32, tf.float32)
    ]
    _, ids, pieces, probabilities = tf.while_loop(
        lambda step, *_: step < tf.maximum(widest, 1),
        body,
        (tf.constant(0), ids, *arrays),
        parallel_iterations=1,
    )
    index = tf.transpose(pieces.stack(), [1, 0, 2])  # [B, P, K]
    probabilities = tf.transpose(probabilities.stack(), [1, 0, 2])
    first = tf.where(probabilities[:, :, 0] > 0.0, probabilities[:, :, 0], 1.0)
    lengths = tf.reduce_sum(mask, 1)
    filled = tf.RaggedTensor.from_tensor(ids, lengths=lengths)
    return {
        "pieces": context.tokenizer.id_to_piece(index),
        "probabilities": probabilities,
        "filled": context.tokenizer.detokenize(filled),
        "num_masks": count,
        "truncated": truncated,
        "joint_log_prob": tf.reduce_sum(tf.math.log(first), 1),
    }


def _masked_rows(context: Context, text: tf.Tensor):
    """Ids with the mask's id at each `<mask>`, padded on the right.

    Also the mask of real places, and whether the end was left out.
    """
    rows = masked_ids(context, text)
    whole = tf.cast(rows.row_lengths(), tf.int32)
    counts = tf.minimum(whole, context.spec.max_seq_length)
    rows = graph_features.first_of_rows(rows, counts)
    ids = rows.to_tensor()
    # Texts may all be without pieces: the model is asked about one place.
    empty = tf.cast(tf.equal(tf.shape(ids)[1], 0), tf.int32)
    ids = tf.pad(ids, [[0, 0], [0, empty]])
    mask = tf.sequence_mask(counts, tf.shape(ids)[1], tf.int32)
    return ids, mask, whole > counts
