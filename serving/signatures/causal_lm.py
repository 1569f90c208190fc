"""A left-to-right language model as signatures: encode, score, generate.

The first three take ids and carry memory as explicit inputs and outputs, so that a
caller streams a text of any length, segment by segment: the new memory of one
call is the memory of the next. Begin with zeros and `memory_length` 0. Rows of
a call have equal lengths.

Letters: B batch, T segment length, M memory slots, L layers, D model, V
vocabulary, G new tokens.
"""

import numpy as np
import tensorflow as tf

from data.text.units import NEWLINE
from serving.generation import causal_decoder, sampling
from serving.generation.language_model import mask_logits
from serving.generation.sampling import PICKED, PICKING
from serving.signatures.sequence import (
    RAW,
    Context,
    Signature,
    int_spec,
    text_spec,
)


def causal_signatures(
    context: Context, banned: np.ndarray
) -> dict[str, Signature]:
    """Every signature of a left-to-right language model.

    Without a tokenizer there are those of ids alone.
    """
    config = context.model.config
    slots = config.mem_len or 0
    generates = slots and not config.bound_to_segment
    shape = [None, config.n_layer, slots, config.d_model]
    stream = {
        "input_ids": int_spec("input_ids", None),
        "memory": tf.TensorSpec(shape, tf.float32, name="memory"),
        "memory_length": int_spec("memory_length"),
    }
    zeros = tf.zeros([2, *shape[1:]]).numpy()
    ids = [[1 % config.vocab_size, 0], [0, 2 % config.vocab_size]]
    example = {"input_ids": ids, "memory": zeros, "memory_length": [0, 0]}

    def encode(input_ids, memory, memory_length):
        hidden, kept = read(context.model, input_ids, memory, memory_length)
        return {"sequence_output": tf.cast(hidden, tf.float32)} | kept

    def score(input_ids, memory, memory_length):
        hidden, kept = read(context.model, input_ids, memory, memory_length)
        losses = context.model.token_losses(hidden[:, :-1], input_ids[:, 1:])
        return {"token_log_probs": -losses} | kept

    signatures = {
        "encode": Signature(
            encode, stream, example, "a segment and memory in, both out"
        ),
        "score": Signature(
            score,
            stream,
            example,
            "log-probability of every token of a segment but its first, given "
            "those before it and the memory; the new memory holds them all",
        ),
    }
    if generates:
        signatures["generate"] = _generate(context, stream, example, banned)
    # Places from the segment's end would depend on the longest line.
    if context.tokenizer is None or config.bound_to_segment:
        return signatures | {RAW: signatures["score"]}
    # Two rules, both by name; the default is that of the commands.
    signatures["score_line"] = _score_signature(context, line_end=True)
    signatures["score_text"] = _score_signature(context, line_end=False)
    signatures[RAW] = signatures["score_line"]
    if generates:
        signatures["generate_text"] = _generate_text(
            context, signatures["generate"]
        )
    return signatures


def _score_signature(context: Context, line_end: bool) -> Signature:
    end = "and of its end" if line_end else "and not of its end"
    return Signature(
        lambda text: _score_text(context, text, line_end),
        {"text": text_spec("text")},
        {"text": ["It cost 12 francs.", "Nobody asked."]},
        "lines of raw text in; ids, log-probability of each but the first "
        f"{end}, their sum; each line by itself",
    )


def _score_text(
    context: Context, text: tf.Tensor, line_end: bool
) -> dict[str, tf.Tensor]:
    """As `Vocabulary.encode_line` and `CausalScorer`, in a graph.

    A line is one segment, however long it is.
    """
    if line_end and context.tokenizer.first is not None:
        text = tf.strings.join([text, NEWLINE])
    rows = context.tokenizer.tokenize(text)
    ids = rows.to_tensor()  # [B, n]
    hidden = _from_the_start(context.model, ids)
    losses = context.model.token_losses(hidden[:, :-1], ids[:, 1:])
    counts = tf.cast(rows.row_lengths(), tf.int32)
    # Texts may all be without tokens, as a zero-width space is.
    longest = tf.maximum(tf.shape(ids)[1] - 1, 0)
    real = tf.sequence_mask(counts - 1, longest, tf.float32)
    return {
        "token_ids": ids,
        "token_log_probs": -losses * real,
        "log_prob": -tf.reduce_sum(losses * real, 1),
        "num_tokens": counts,
        "num_scored": tf.maximum(counts - 1, 0),
    }


def _from_the_start(model, ids: tf.Tensor) -> tf.Tensor:
    """[B, n, D] of whole texts, from the memory that evaluation begins with."""
    config = model.config
    if config.ignores_empty_memory:
        return model(ids).sequence_output
    batch = tf.shape(ids)[0]
    shape = [batch, config.n_layer, config.mem_len or 0, config.d_model]
    none = tf.zeros([batch], tf.int32)
    return read(model, ids, tf.zeros(shape), none)[0]


def _generate_text(context: Context, ids: Signature) -> Signature:
    """`generate` for each text, whatever their lengths.

    As `CausalGenerator` reads a prompt: in segments, each after the memory of
    those before it.
    """
    config, segment = context.model.config, causal_decoder.SEGMENT
    shape = [1, config.n_layer, config.mem_len, config.d_model]

    def before(row):
        """Where the last segment of ids [n] begins, and the memory there."""

        def body(start, memory, length):
            ids = row[tf.newaxis, start : start + segment]
            _, kept = read(context.model, ids, memory, length)
            kept = kept["new_memory"], kept["new_memory_length"]
            return start + segment, *kept

        last = tf.maximum(tf.size(row) - 1, 0) // segment * segment
        none = (tf.constant(0), tf.zeros(shape), tf.zeros([1], tf.int32))
        return tf.while_loop(
            lambda start, *_: start < last, body, none, parallel_iterations=1
        )

    def generate(text, **how):
        rows = context.tokenizer.tokenize(text)

        def one(row):
            start, *memory = before(row)
            generated = ids.function(row[tf.newaxis, start:], *memory, **how)
            return generated["tokens"][0], generated["log_probs"][0]

        tokens, log_probs = sampling.by_text(one, rows)
        return {
            "continuation": context.tokenizer.continuation(rows, tokens),
            "tokens": tokens,
            "log_probs": log_probs,
        }

    return Signature(
        generate,
        {"text": text_spec("text")} | PICKING,
        {"text": ["It cost ", "No"]} | PICKED,
        "lines of raw text in; what comes after each",
    )


def _generate(
    context: Context, stream: dict, example: dict, banned: np.ndarray
) -> Signature:

    def after(model, hidden):
        """float32 [B, V] of what may come after the last token."""
        log_probs = model.log_probs(hidden[:, -1])
        return tf.nn.log_softmax(mask_logits(log_probs, banned))

    def generate(
        input_ids,
        memory,
        memory_length,
        max_new_tokens,
        temperature,
        top_k,
        seed,
    ):
        model = context.model
        hidden, kept = read(model, input_ids, memory, memory_length)
        log_probs = after(model, hidden)

        def body(step, log_probs, memory, length, tokens, chosen):
            token = sampling.choose(log_probs, temperature, top_k, [seed, step])
            tokens = tokens.write(step, token)
            chosen = chosen.write(
                step, tf.gather(log_probs, token, batch_dims=1)
            )
            hidden, kept = read(model, token[:, tf.newaxis], memory, length)
            memory, length = kept["new_memory"], kept["new_memory_length"]
            log_probs = after(model, hidden)
            return step + 1, log_probs, memory, length, tokens, chosen

        arrays = [
            tf.TensorArray(d, max_new_tokens, element_shape=[None])
            for d in (tf.int32, tf.float32)
        ]
        state = tf.while_loop(
            lambda step, *_: step < max_new_tokens,
            body,
            (
                tf.constant(0),
                log_probs,
                kept["new_memory"],
                kept["new_memory_length"],
                *arrays,
            ),
            parallel_iterations=1,
        )
        return {
            "tokens": tf.transpose(state[4].stack()),
            "log_probs": tf.transpose(state[5].stack()),
            "new_memory": state[2],
            "new_memory_length": state[3],
        }

    return Signature(
        generate,
        stream | PICKING,
        example | PICKED,
        "continues a segment; temperature 0 takes the most probable token",
    )


def read(model, input_ids, memory, memory_length):
    """A segment, int32 [B, T], after memory [B, L, M, D].

    (hidden [B, T, D], {"new_memory", "new_memory_length"} of those shapes).
    """
    config = model.config
    if not config.mem_len:
        output = model(input_ids)
        kept = {"new_memory": memory, "new_memory_length": memory_length}
        return output.sequence_output, kept
    layers = tuple(tf.unstack(memory, config.n_layer, axis=1))
    output = model.read_on(input_ids, layers, memory_length)
    kept = {
        "new_memory": tf.ensure_shape(
            tf.cast(tf.stack(output.new_memory, 1), tf.float32), memory.shape
        ),
        "new_memory_length": output.new_memory_length,
    }
    return output.sequence_output, kept
