"""Left-to-right generation with cached keys and values.

The text so far is context: its tokens see each other (with "uni" attention,
those before them), as tokens that are not predicted do in training. Each new
token is a target in left-to-right order: it is predicted by a query row that
sees everything before it, and once picked, a content row that sees everything
up to itself. So no earlier hidden state ever depends on a later token, and the
keys and values of a layer can be kept: a step computes two rows, the content
of the last token and the query of the next one, whatever came before.

Letters: B samples, C capacity of the cache, N heads, H head size, D model.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from modeling import PretrainingModel, positions
from modeling.masks import MASK_VALUE
from serving import sampling
from serving.language_model import mask_logits
from serving.options import SamplingOptions


class Result(NamedTuple):
    """What was generated.

    Attributes:
      tokens: int32 [B, new tokens]; after `<eod>` all `pad`.
      lengths: int32 [B], tokens up to and with `<eod>`.
      log_probs: float32 [B, new tokens] under the model (temperature 1).
    """

    tokens: np.ndarray
    lengths: np.ndarray
    log_probs: np.ndarray


class Generator:
    """Continues prompts.

    Args:
      model: with all weights.
      banned: ids that are never picked.
      eod: the id that ends a text.
      pad: fills the rows after it.
    """

    def __init__(
        self, model: PretrainingModel, banned: np.ndarray, eod: int, pad: int
    ):
        self.model = model
        self.banned = banned
        self.eod = eod
        self.pad = pad
        # One trace per prompt length and option set.
        self._cached = tf.function(self._generate, reduce_retracing=False)
        self._forward = tf.function(self._last_logits, reduce_retracing=True)

    def generate(self, prompt: np.ndarray, options: SamplingOptions) -> Result:
        """Continues one prompt `options.num_samples` times.

        Args:
          prompt: int32 [prompt length], at least one token.
          options: how tokens are picked.
        """
        rows = np.tile(prompt[np.newaxis], [options.num_samples, 1])
        run = self._cached if options.use_cache else self._without_cache
        tokens, log_probs = run(tf.constant(rows, tf.int32), options)
        tokens, log_probs = np.asarray(tokens), np.asarray(log_probs)
        ends = tokens == self.eod
        lengths = np.where(
            ends.any(1), ends.argmax(1) + 1, tokens.shape[1]
        ).astype(np.int32)
        longest = int(lengths.max())
        return Result(tokens[:, :longest], lengths, log_probs[:, :longest])

    # --- Shared by both ways ----------------------------------------------

    def _pick(self, query, step, done, options):
        """The next token [B] and its log-probability [B]."""
        logits = self.model.lm_logits(query)[:, 0]  # [B, V]
        logits = mask_logits(logits, self.banned)
        seed = tf.stack([tf.constant(options.seed, tf.int32), step])
        token = sampling.pick(
            logits, options.temperature, options.top_k, options.top_p, seed
        )
        log_probs = tf.nn.log_softmax(logits)
        log_prob = tf.gather(log_probs, token, batch_dims=1)
        token = tf.where(done, self.pad, token)
        return token, tf.where(done, 0.0, log_prob)

    def _context(self, ids, prompt_length):
        """The model over text and one place more, whose query row is asked.

        `ids` [B, T]: the first `prompt_length` are context, the others are
        targets in left-to-right order.
        """
        batch, length = tf.shape(ids)[0], tf.shape(ids)[1]
        ids = tf.pad(ids, [[0, 0], [0, 1]])  # [B, T + 1]
        place = tf.range(length + 1) - prompt_length
        ranks = tf.tile(tf.maximum(place, -1)[tf.newaxis], [batch, 1])
        return self.model(
            ids,
            ranks=ranks,
            is_target=ranks >= 0,
            target_positions=tf.fill([batch, 1], length),
            training=False,
            output_hidden_states=True,
        )

    # --- The slow way: everything again for each token ----------------------

    def _last_logits(self, ids, prompt_length):
        return self._context(ids, prompt_length).query_output

    def _without_cache(self, prompt, options):
        ids, done = prompt, tf.zeros([prompt.shape[0]], tf.bool)
        log_probs = []
        for step in range(options.max_new_tokens):
            query = self._forward(ids, tf.constant(prompt.shape[1]))
            token, log_prob = self._pick(
                query, tf.constant(step), done, options
            )
            ids = tf.concat([ids, token[:, tf.newaxis]], 1)
            log_probs.append(log_prob)
            done |= tf.equal(token, self.eod)
            if bool(tf.reduce_all(done)):
                break
        return ids[:, prompt.shape[1] :], tf.stack(log_probs, 1)

    # --- The fast way: two rows for each token -------------------------------

    def _generate(self, prompt, options):
        batch, length = prompt.shape
        new = options.max_new_tokens
        context = self._context(prompt, length)
        capacity = length + new
        tables = self._position_tables(capacity)
        caches = [
            self._start_cache(block, states[:, :length], capacity)
            for block, states in zip(
                self.model.encoder.blocks, context.hidden_states, strict=False
            )
        ]
        done = tf.zeros([batch], tf.bool)
        token, log_prob = self._pick(
            context.query_output, tf.constant(0), done, options
        )
        tokens = tf.fill([new, batch], self.pad)
        log_probs = tf.zeros([new, batch])
        first = tf.constant([[0]])
        tokens = tf.tensor_scatter_nd_update(tokens, first, token[tf.newaxis])
        log_probs = tf.tensor_scatter_nd_update(
            log_probs, first, log_prob[tf.newaxis]
        )

        def body(step, token, done, tokens, log_probs, caches):
            query, caches = self._step(token, length + step - 1, caches, tables)
            token, log_prob = self._pick(query, step, done, options)
            at = tf.reshape(step, [1, 1])
            return (
                step + 1,
                token,
                done | tf.equal(token, self.eod),
                tf.tensor_scatter_nd_update(tokens, at, token[tf.newaxis]),
                tf.tensor_scatter_nd_update(
                    log_probs, at, log_prob[tf.newaxis]
                ),
                caches,
            )

        state = tf.while_loop(
            lambda step, token, done, *_: (step < new) & ~tf.reduce_all(done),
            body,
            (
                tf.constant(1),
                token,
                tf.equal(token, self.eod),
                tokens,
                log_probs,
                caches,
            ),
            parallel_iterations=1,
        )
        return tf.transpose(state[3]), tf.transpose(state[4])

    def _position_tables(self, capacity):
        """r of the distances 0..C of every layer: list of [N, C + 1, H]."""
        config = self.model.config
        table = positions.sinusoid_table(
            1, capacity, config.d_model, "uni", config.clamp_len
        )[0]  # [C + 1, D], distances C..0
        table = tf.reverse(table, [0])
        return [
            tf.einsum(
                "cd,dnh->nch",
                tf.cast(table, block.compute_dtype),
                _kernel(block, "r"),
            )
            for block in self.model.encoder.blocks
        ]

    def _start_cache(self, block, states, capacity):
        """Keys and values [N, B, C, H] of the context, zeros after it."""
        gap = capacity - states.shape[1]
        return tuple(
            tf.pad(
                tf.einsum("btd,dnh->nbth", states, _kernel(block, name)),
                [[0, 0], [0, 0], [0, gap], [0, 0]],
            )
            for name in "kv"
        )

    def _step(self, token, place, caches, tables):
        """Adds the token [B] at `place`; the query row [B, 1, D] after it."""
        embeddings = self.model.encoder.embeddings
        batch = token.shape[0]
        x = tf.concat(
            [
                embeddings(token[:, tf.newaxis]),
                embeddings.query_rows(batch, 1),
            ],
            1,
        )  # [B, 2, D]: content of the token, query of the next one
        new_caches = []
        for block, cache, table in zip(
            self.model.encoder.blocks, caches, tables, strict=True
        ):
            cache = self._append(block, cache, x[:, :1], place)
            x = self._attend(block, x, cache, table, place)
            x = block.ff(x, training=False)
            new_caches.append(cache)
        return x[:, 1:], new_caches

    def _append(self, block, cache, x, place):
        n, batch = self.model.config.n_head, x.shape[0]
        rows = np.stack(
            np.meshgrid(np.arange(n), np.arange(batch), indexing="ij"), -1
        ).reshape(-1, 2)
        where = tf.concat(
            [tf.constant(rows, tf.int32), tf.fill([n * batch, 1], place)], 1
        )
        return tuple(
            tf.tensor_scatter_nd_update(
                kept,
                where,
                tf.reshape(
                    tf.einsum("bqd,dnh->nbqh", x, _kernel(block, name)),
                    [n * batch, -1],
                ),
            )
            for kept, name in zip(cache, "kv", strict=True)
        )

    def _attend(self, block, x, cache, table, place):
        """Relative attention of both rows to the places 0..`place`."""
        k, v = cache  # [N, B, C, H]
        attention = block.rel_attn
        u, bias_r = self._biases(attention, x.dtype)  # [N, 1, 1, H]
        scale = k.shape[-1] ** -0.5
        q = tf.einsum("bqd,dnh->nbqh", x, _kernel(block, "q"))
        scores = tf.matmul((q + u) * scale, k, transpose_b=True)
        by_distance = tf.einsum(
            "nbqh,nch->nbqc", (q + bias_r) * scale, table
        )  # [N, B, 2, C + 1]
        keys = tf.range(k.shape[2])
        # The content row stands at `place`, the query row one further.
        position = [
            tf.gather(
                by_distance[:, :, row],
                tf.maximum(place + row - keys, 0),
                axis=-1,
            )
            for row in (0, 1)
        ]
        scores += tf.stack(position, 2)  # [N, B, 2, C]
        scores = tf.cast(scores, tf.float32)
        scores += tf.where(keys <= place, 0.0, MASK_VALUE)
        probabilities = tf.cast(tf.nn.softmax(scores), x.dtype)
        vector = tf.matmul(probabilities, v)  # [N, B, 2, H]
        out = tf.einsum("nbqh,dnh->bqd", vector, _kernel(block, "o"))
        return attention.norm(out + x)

    def _biases(self, attention, dtype):
        owner = attention if attention.untie_r else self.model.encoder
        return [
            tf.cast(getattr(owner, name), dtype)[:, tf.newaxis, tf.newaxis]
            for name in ("r_w_bias", "r_r_bias")
        ]


def _kernel(block, name: str) -> tf.Tensor:
    """[D, N, H] of the compute type."""
    return tf.cast(block.rel_attn.kernels[name], block.compute_dtype)
