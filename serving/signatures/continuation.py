"""A permutation language model that goes on with texts, in the graph.

As `serving.generation.decoder`: the text is context, whose pieces see each
other; new pieces are targets in left-to-right order. A step reads two rows
after the memory of all before them: the content of the last piece, and the
query of the next one. Every text goes by itself, whatever its length.

Letters: n pieces of a text, G new ones, M pieces in memory, L layers, D model,
V vocabulary.
"""

import tensorflow as tf

from serving.generation import sampling
from serving.generation.sampling import PICKED, PICKING
from serving.signatures.sequence import Context, Signature, text_spec


def continuation_signature(context: Context) -> Signature:
    """Raw texts -> what comes after each."""

    def generate(text, max_new_tokens, temperature, top_k, seed):
        rows = context.tokenizer.tokenize(text)
        counts = tf.cast(rows.row_lengths(), tf.int32)
        kept = tf.minimum(counts, context.spec.max_seq_length)
        rows = rows[:, -context.spec.max_seq_length :]

        def one(prompt):
            return _continue(
                context, prompt, max_new_tokens, temperature, top_k, seed
            )

        tokens, log_probs = sampling.by_text(one, rows)
        return {
            "continuation": _text_after(context, rows, tokens),
            "tokens": tokens,
            "log_probs": log_probs,
            "num_tokens": kept,
            "truncated": counts > kept,
        }

    return Signature(
        generate,
        {"text": text_spec("text")} | PICKING,
        {"text": ["It cost 12 francs", "No"]} | PICKED,
        "raw text in; what comes after it, to <eod> at most; temperature 0 "
        "takes the most probable piece",
    )


def _continue(context: Context, prompt, count, temperature, top_k, seed):
    """(int32 [G], float32 [G]) after the ids [n]; `<pad>` behind `<eod>`."""
    model, ids = context.model, context.ids
    start = tf.fill([tf.cast(tf.equal(tf.size(prompt), 0), tf.int32)], ids.eod)
    prompt = tf.concat([start, prompt], 0)  # never empty
    banned = ids.never_written()
    size = model.config.vocab_size
    banned = tf.constant([i in banned for i in range(size)])
    states = model(
        prompt[tf.newaxis], training=False, output_hidden_states=True
    ).hidden_states
    # The last piece is read again, as the first content row.
    memory = tf.stack(states[:-1])[:, :, :-1]  # [L, 1, M, D]
    memory = tf.ensure_shape(memory, [len(states) - 1, 1, None, None])

    def step(i, last, memory, tokens, log_probs):
        position = tf.constant([[0, 1]])
        output = model(
            tf.tile(last[tf.newaxis, tf.newaxis], [1, 2]),
            ranks=position,
            is_target=tf.ones_like(position),
            target_positions=position[:, 1:],
            memory=tuple(tf.unstack(memory)),
            memory_length=tf.shape(memory)[2][tf.newaxis],
            training=False,
            output_hidden_states=True,
        )
        logits = model.lm_logits(output.query_output)[:, 0]  # [1, V]
        logits = tf.where(banned, -float("inf"), logits)
        token = sampling.choose(logits, temperature, top_k, [seed, i])[0]
        log_prob = tf.nn.log_softmax(logits)[0, token]
        content = tf.stack(output.hidden_states[:-1])[:, :, :1]
        memory = tf.concat([memory, tf.cast(content, memory.dtype)], 2)
        tokens, log_probs = tokens.write(i, token), log_probs.write(i, log_prob)
        return i + 1, token, memory, tokens, log_probs

    arrays = [
        tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=[])
        for dtype in (tf.int32, tf.float32)
    ]
    count_made, _, _, tokens, log_probs = tf.while_loop(
        lambda i, last, *_: (i < count) & ((i == 0) | (last != ids.eod)),
        step,
        (tf.constant(0), prompt[-1], memory, *arrays),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([]),
            tf.TensorShape([len(states) - 1, 1, None, model.config.d_model]),
            tf.TensorShape(None),
            tf.TensorShape(None),
        ),
        parallel_iterations=1,
    )
    behind = [[0, count - count_made]]
    return (
        tf.pad(tokens.stack(), behind, constant_values=ids.pad),
        tf.pad(log_probs.stack(), behind),
    )


def _text_after(context: Context, rows, tokens) -> tf.Tensor:
    """Strings [B]: what `tokens` [B, G] add to the text of `rows`."""
    ids = context.ids
    ends = tf.cumsum(tf.cast(tf.equal(tokens, ids.eod), tf.int32), 1)
    added = tf.ragged.boolean_mask(tokens, ends == 0)
    before = context.tokenizer.detokenize(rows)
    after = context.tokenizer.detokenize(tf.concat([rows, added], 1))
    length = tf.strings.length(before)
    return tf.strings.substr(after, length, tf.strings.length(after) - length)
