"""Generation by a left-to-right language model with a ring of M slots.

The prompt is read in segments through the memory, from the start that the model
was trained with (`memory_start`, `same_length`), as evaluation does. Then every
token is a segment of one: it attends to itself and to the M inputs before it,
whose keys and values are kept, each in the slot that it got when it came. A step
costs the same however long the text is.

Letters: B samples, M memory slots, G new tokens, D model, V vocabulary.
"""

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling.attention.attend import ALL
from modeling.attention.ring import Place, RingKeys, fill
from modeling.heads.causal_lm import CausalLanguageModel
from modeling.ops.context import LayerContext
from serving.generation.decoder import Result, picked, prepared_matmul
from serving.generation.options import SamplingOptions

SEGMENT = 512  # longest segment that a prompt is read in


class CausalGenerator:
    """Continues prompts; UserError where the model keeps no memory.

    `mem_len` of the model, with all weights, is M. `end` is the id that ends a
    line or a text (None = there is none); so many as `stop_count` end a sample,
    0 = none does.
    """

    def __init__(
        self,
        model: CausalLanguageModel,
        banned: np.ndarray,
        end: int | None = None,
        stop_count: int = 0,
    ):
        if not model.config.mem_len:
            raise UserError(
                "generation needs a memory: give --mem_len >= 1, how many "
                "tokens back the model may look"
            )
        if model.config.bound_to_segment:
            raise UserError(
                "generation carries keys of earlier tokens along, which "
                f"encoding {model.config.encoding!r} cannot place: wanted "
                "relative, shaw or shaw_released"
            )
        self.model = model
        self.banned = np.asarray(banned, np.int32)
        self.end = -1 if end is None else end
        self.stop_count = stop_count
        # One trace per prompt length modulo M, and set of options.
        self._cached = tf.function(
            self._generate, reduce_retracing=False, autograph=False
        )
        self._read = tf.function(
            self._segment, reduce_retracing=True, autograph=False
        )

    def generate(self, prompt: np.ndarray, options: SamplingOptions) -> Result:
        """Continues int32 [prompt length] >= 1 `options.num_samples` times."""
        log_probs, memory = self.read(prompt)
        run = self._cached if options.use_cache else self._without_cache
        tokens, log_probs = run(
            log_probs, memory, tf.constant(len(prompt)), options
        )
        tokens, log_probs = np.asarray(tokens), np.asarray(log_probs)
        return Result.of(tokens, log_probs, self.stops(tokens))

    def stops(self, tokens: np.ndarray) -> np.ndarray:
        """bool [B, G]: a sample has the `end` that stops it here or before."""
        ends = np.cumsum(tokens == self.end, 1)
        return (ends >= self.stop_count) if self.stop_count else ends < 0

    def read(self, prompt: np.ndarray) -> tuple[tf.Tensor, tuple]:
        """Log-probabilities [1, V] after a prompt, and its memory.

        The memory is (L tensors [1, M, D], int32 [1], slots that are filled).
        """
        memory = self.model.empty_memory(1)
        for start in range(0, len(prompt), SEGMENT):
            ids = tf.constant(prompt[np.newaxis, start : start + SEGMENT])
            log_probs, *memory = self._read(tf.cast(ids, tf.int32), *memory)
        return log_probs, tuple(memory)

    def _segment(self, ids, layers, length):
        output = self.model.read_on(ids, layers, length)
        last = output.sequence_output[:, -1]  # [1, D]
        log_probs = self.model.log_probs(last)
        return log_probs, output.new_memory, output.new_memory_length

    def has_ended(self, tokens: list[int]) -> bool:
        """Whether a sample stopped by itself."""
        return bool(self.stops(np.asarray([tokens])).any())

    # --- Shared by both ways ----------------------------------------------

    def _going_on(self, token, left):
        """`end`s that each sample may still have; all of them go on at 0."""
        return left - tf.cast(tf.equal(token, self.end), tf.int32)

    # --- The slow way: keys and values of the memory again per token --------

    def _without_cache(self, log_probs, memory, count, options):
        del count
        samples = options.num_samples
        layers, length = memory
        layers = tuple(tf.repeat(layer, samples, 0) for layer in layers)
        memory = layers, tf.repeat(length, samples, 0)
        log_probs = tf.repeat(log_probs, samples, 0)
        tokens, log_probs_chosen = [], []
        left = tf.fill([samples], self.stop_count)
        for step in range(options.max_new_tokens):
            token, own = picked(
                log_probs, self.banned, options, tf.constant(step)
            )
            tokens.append(token)
            log_probs_chosen.append(own)
            left = self._going_on(token, left)
            if self.stop_count and bool(tf.reduce_all(left <= 0)):
                break
            log_probs, *memory = self._read(token[:, tf.newaxis], *memory)
        return tf.stack(tokens, 1), tf.stack(log_probs_chosen, 1)

    # --- The fast way: one row per token ------------------------------------

    def _generate(self, log_probs, memory, count, options):
        batch, new = options.num_samples, options.max_new_tokens
        encoder = self.model.encoder
        context = LayerContext(matmul=prepared_matmul(encoder, "qor"))
        slots = self.model.config.mem_len
        hide = self.model.config.memory_start != "zeros"
        tables = encoder.position_keys(slots, context.matmul)
        caches = self._caches(memory, count, batch, context)
        clusters = self.model.softmax.tables(encoder.embeddings)
        log_probs = tf.repeat(log_probs, batch, 0)
        left = tf.fill([batch], self.stop_count)

        def body(step, log_probs, left, tokens, chosen, caches):
            token, own = picked(log_probs, self.banned, options, step)
            at = tf.reshape(step, [1, 1])
            tokens = tf.tensor_scatter_nd_update(tokens, at, token[tf.newaxis])
            chosen = tf.tensor_scatter_nd_update(chosen, at, own[tf.newaxis])
            place = Place.of(count + step, slots, hide)
            x = encoder.embeddings(token[:, tf.newaxis])  # [B, 1, D]
            kept = []
            for block, cache, r in zip(
                encoder.blocks, caches, tables, strict=True
            ):
                keys = RingKeys.of(
                    block.rel_attn,
                    x,
                    cache,
                    r,
                    place,
                    encoder.shared_biases(),
                    context,
                )
                x = block.rel_attn(x, keys, ALL, context)
                x = block.ff(x, context)
                kept.append(keys.written())
            log_probs = self.model.log_probs(x[:, 0], clusters)
            left = self._going_on(token, left)
            return step + 1, log_probs, left, tokens, chosen, kept

        state = tf.while_loop(
            lambda step, _, left, *__: (
                (step < new)
                & ((self.stop_count == 0) | tf.reduce_any(left > 0))
            ),
            body,
            (
                tf.constant(0),
                log_probs,
                left,
                tf.fill([new, batch], self.end),
                tf.zeros([new, batch]),
                caches,
            ),
            parallel_iterations=1,
        )
        steps = state[0]
        tokens, chosen = state[3][:steps], state[4][:steps]
        return tf.transpose(tokens), tf.transpose(chosen)

    def _caches(self, memory, count, batch, context):
        """[2, N, B, M, H] of every layer after the prompt."""
        slots, caches = self.model.config.mem_len, []
        for block, layer in zip(
            self.model.encoder.blocks, memory[0], strict=True
        ):
            kernels = [block.rel_attn.kernels[name] for name in "kv"]
            layer = tf.cast(layer, block.compute_dtype)
            pair = tf.stack(context.matmul.heads([layer], kernels))
            caches.append(tf.repeat(fill(pair, count, slots), batch, 2))
        return caches
