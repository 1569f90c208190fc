"""Left-to-right generation with cached keys and values.

The text so far is context: its tokens see each other (with "uni" attention,
those before them), as tokens that are not predicted do in training. Each new
token is a target in left-to-right order: it is predicted by a query row that
sees everything before it, and once picked, a content row that sees everything
up to itself. So no earlier hidden state ever depends on a later token, and the
keys and values of a layer can be kept: a step computes two rows, the content
of the last token and the query of the next one, whatever came before. Those of
the prompt are kept once for all samples, whose rows go through them together.

Letters: B samples, P prompt length, G new tokens, C = P + G, N heads, H head
size, D model.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from modeling import PretrainingModel
from modeling.attention import positions
from modeling.attention.masks import MASK_VALUE
from serving.generation import sampling
from serving.generation.language_model import mask_logits
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
        run = self._cached if options.use_cache else self._without_cache
        tokens, log_probs = run(tf.constant(prompt, tf.int32), options)
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
        # Two dimensions: a batched product with few rows is far slower.
        logits = self.model.lm_logits(query[:, 0])  # [B, V]
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
        samples, length = options.num_samples, prompt.shape[0]
        ids = tf.tile(prompt[tf.newaxis], [samples, 1])  # [B, P]
        done = tf.zeros([samples], tf.bool)
        log_probs = []
        for step in range(options.max_new_tokens):
            query = self._forward(ids, tf.constant(length))
            token, log_prob = self._pick(
                query, tf.constant(step), done, options
            )
            ids = tf.concat([ids, token[:, tf.newaxis]], 1)
            log_probs.append(log_prob)
            done |= tf.equal(token, self.eod)
            if bool(tf.reduce_all(done)):
                break
        return ids[:, length:], tf.stack(log_probs, 1)

    # --- The fast way: two rows for each token -------------------------------

    def _generate(self, prompt, options):
        batch, length = options.num_samples, prompt.shape[0]
        new = options.max_new_tokens
        context = self._context(prompt[tf.newaxis], length)
        blocks = self.model.encoder.blocks
        tables = self._position_tables(length + new)
        layers = [
            self._layer(block, states[0, :length], table)
            for block, states, table in zip(
                blocks, context.hidden_states[:-1], tables, strict=True
            )
        ]
        n, h = self.model.config.n_head, self.model.config.d_head
        caches = [
            tf.zeros([2, n, batch, new, h], block.compute_dtype)
            for block in blocks
        ]
        query = tf.repeat(context.query_output, batch, 0)
        done = tf.zeros([batch], tf.bool)
        token, log_prob = self._pick(query, tf.constant(0), done, options)
        tokens = tf.fill([new, batch], self.pad)
        log_probs = tf.zeros([new, batch])
        first = tf.constant([[0]])
        tokens = tf.tensor_scatter_nd_update(tokens, first, token[tf.newaxis])
        log_probs = tf.tensor_scatter_nd_update(
            log_probs, first, log_prob[tf.newaxis]
        )

        def body(step, token, done, tokens, log_probs, caches):
            query, caches = self._step(token, step - 1, caches, layers)
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
        """r of the distances C..0 of every layer: list of [N, C + 1, H]."""
        config = self.model.config
        table = positions.sinusoid_table(
            1, capacity, config.d_model, "uni", config.clamp_len
        )[0]  # [C + 1, D]
        return [
            tf.einsum(
                "cd,dnh->nch",
                tf.cast(table, block.compute_dtype),
                _kernel(block, "r"),
            )
            for block in self.model.encoder.blocks
        ]

    def _layer(self, block, states, table) -> "_Layer":
        """What a layer needs in every step, made once before the loop.

        `states` [P, D]: its input over the prompt.
        """
        q, k, v, o = (
            tf.reshape(_kernel(block, name), [self.model.config.d_model, -1])
            for name in "qkvo"
        )
        owner = block.rel_attn
        owner = owner if owner.untie_r else self.model.encoder
        u, bias_r = (
            tf.cast(getattr(owner, name), block.compute_dtype)[:, tf.newaxis]
            for name in ("r_w_bias", "r_r_bias")
        )
        keys, values = (
            tf.einsum("pd,dnh->nph", states, _kernel(block, name))
            for name in "kv"
        )
        return _Layer(
            tf.concat([q, k, v], 1),
            tf.transpose(o),
            u,
            bias_r,
            tuple(tf.identity(k) for k in block.ff.kernels()),
            table,
            keys,
            values,
        )

    def _step(self, token, slot, caches, layers):
        """Adds the token [B] at P + `slot`; the query row [B, 1, D] after it.

        Rows of x [2B, D]: the content of the tokens, then the queries of the
        next ones. A step is bound by reading the weights once, so all rows go
        through each matrix together.
        """
        embeddings = self.model.encoder.embeddings
        batch = token.shape[0]
        x = tf.concat(
            [embeddings(token), embeddings.query_rows(batch, 1)[:, 0]], 0
        )
        new_caches = []
        for block, cache, layer in zip(
            self.model.encoder.blocks, caches, layers, strict=True
        ):
            x, cache = self._attend(block, x, cache, layer, slot)
            x = block.ff(x[tf.newaxis], training=False, kernels=layer.kernels)[
                0
            ]
            new_caches.append(cache)
        return x[batch:, tf.newaxis], new_caches

    def _attend(self, block, x, cache, layer, slot):
        """Relative attention of all rows to the places up to P + `slot`."""
        n, h = self.model.config.n_head, self.model.config.d_head
        batch, new = cache.shape[2], cache.shape[3]
        rows = tf.reshape(
            tf.matmul(x, layer.qkv), [2, batch, 3, n, h]
        )  # row kind, B, q k v, N, H
        both = tf.transpose(rows[0, :, 1:], [1, 2, 0, 3])  # [2, N, B, H]
        cache = _write(cache, both, slot)
        q = tf.transpose(rows[:, :, 0], [2, 1, 0, 3]) * h**-0.5
        q = tf.reshape(q, [n, 2 * batch, h])  # rows by sample, then kind
        content = q + layer.u * h**-0.5
        scores = tf.concat(
            [
                tf.matmul(content, layer.keys, transpose_b=True),  # [N, 2B, P]
                _join(tf.matmul(_part(content), cache[0], transpose_b=True)),
            ],
            -1,
        )  # [N, 2B, C]
        by_distance = tf.matmul(
            q + layer.bias_r * h**-0.5, layer.table, transpose_b=True
        )
        scores += _shift(by_distance, new, slot)
        length = scores.shape[2] - new
        hidden = tf.range(length + new) > length + slot
        scores = tf.cast(scores, tf.float32) + tf.where(hidden, MASK_VALUE, 0.0)
        p = tf.cast(tf.nn.softmax(scores), x.dtype)  # [N, 2B, C]
        vector = tf.matmul(p[..., :length], layer.values)
        vector += _join(tf.matmul(_part(p[..., length:]), cache[1]))
        vector = tf.reshape(vector, [n, batch, 2, h])
        vector = tf.transpose(vector, [2, 1, 0, 3])  # [2, B, N, H]
        out = tf.matmul(tf.reshape(vector, [2 * batch, n * h]), layer.o)
        return block.rel_attn.norm(out + x), cache


class _Layer(NamedTuple):
    """Of a layer: its matrices, and what it knows of the prompt.

    Attributes:
      qkv: [D, 3NH].
      o: [NH, D].
      u, bias_r: [N, 1, H].
      kernels: [D, F] and [F, D].
      table: [N, C + 1, H], r of the distances C..0.
      keys, values: [N, P, H].
    """

    qkv: tf.Tensor
    o: tf.Tensor
    u: tf.Tensor
    bias_r: tf.Tensor
    kernels: tuple[tf.Tensor, tf.Tensor]
    table: tf.Tensor
    keys: tf.Tensor
    values: tf.Tensor


def _part(x: tf.Tensor) -> tf.Tensor:
    """[N, 2B, X] -> [N, B, 2, X]: each sample has keys of its own."""
    return tf.reshape(x, [x.shape[0], x.shape[1] // 2, 2, x.shape[2]])


def _join(x: tf.Tensor) -> tf.Tensor:
    """[N, B, 2, X] -> [N, 2B, X]."""
    return tf.reshape(x, [x.shape[0], x.shape[1] * 2, x.shape[3]])


def _shift(scores: tf.Tensor, new: int, slot: tf.Tensor) -> tf.Tensor:
    """By distance C..0, [N, 2B, C + 1] -> by key 0..C-1, [N, 2B, C].

    The content row stands at P + `slot`, the query row one further. Keys after
    them get zeros, which a mask hides.
    """
    capacity = scores.shape[2] - 1
    scores = _part(tf.pad(scores, [[0, 0], [0, 0], [0, new]]))
    first = new - slot  # column of key 0 in a row at P + slot
    found = [
        tf.slice(
            scores,
            [0, 0, row, first - row],
            [*scores.shape[:2], 1, capacity],
        )
        for row in (0, 1)
    ]
    return _join(tf.concat(found, 2))


def _write(cache: tf.Tensor, new: tf.Tensor, slot: tf.Tensor) -> tf.Tensor:
    """Puts `new` [2, N, B, H] at `slot` of [2, N, B, G, H]."""
    lead = cache.shape[:3]
    index = np.stack(
        np.meshgrid(*map(np.arange, lead), indexing="ij"), -1
    ).reshape(-1, 3)
    where = tf.concat(
        [tf.constant(index, tf.int32), tf.fill([len(index), 1], slot)], 1
    )
    return tf.tensor_scatter_nd_update(
        cache, where, tf.reshape(new, [len(index), cache.shape[-1]])
    )


def _kernel(block, name: str) -> tf.Tensor:
    """[D, N, H] of the compute type."""
    return tf.cast(block.rel_attn.kernels[name], block.compute_dtype)
