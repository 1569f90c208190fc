"""Left-to-right generation with cached keys and values.

The text so far is context: its tokens see each other (with "uni" attention,
those before them), as tokens that are not predicted do in training. Each new
token is a target in left-to-right order: it is predicted by a query row that
sees everything before it, and once picked, a content row that sees everything
up to itself. So no earlier hidden state ever depends on a later token, and the
keys and values of a layer can be kept: a step computes two rows, the content
of the last token and the query of the next one, whatever came before. Those of
the prompt are kept once for all samples, whose rows go through them together.

Letters: B samples, P prompt length, G new tokens, C = P + G, D model.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from modeling import PretrainingModel
from modeling.attention import masks
from modeling.attention.attend import Stream
from modeling.attention.positions import sinusoids
from modeling.ops.context import LayerContext
from modeling.ops.matmul import PreparedMatmul
from serving.generation import sampling
from serving.generation.language_model import mask_logits
from serving.generation.options import SamplingOptions


class Result(NamedTuple):
    """What was generated."""

    tokens: np.ndarray  # int32 [B, new tokens]; after `<eod>` all `pad`
    lengths: np.ndarray  # int32 [B], tokens up to and with `<eod>`
    # float32 [B, new tokens] under the model (temperature 1)
    log_probs: np.ndarray

    @classmethod
    def of(cls, tokens, log_probs, stops: np.ndarray) -> "Result":
        """Of [B, G] as they were made; bool [B, G], the text ends here."""
        ends = stops.argmax(1) + 1
        lengths = np.where(stops.any(1), ends, tokens.shape[1])
        longest = int(lengths.max())
        return cls(
            tokens[:, :longest],
            lengths.astype(np.int32),
            log_probs[:, :longest],
        )


def picked(
    logits: tf.Tensor, banned: np.ndarray, options: SamplingOptions, step
) -> tuple[tf.Tensor, tf.Tensor]:
    """The next token [B] and its log-probability [B], of logits [B, V]."""
    logits = mask_logits(logits, banned)
    seed = tf.stack([tf.constant(options.seed, tf.int32), step])
    token = sampling.pick(
        logits, options.temperature, options.top_k, options.top_p, seed
    )
    log_probs = tf.nn.log_softmax(logits)
    return token, tf.gather(log_probs, token, batch_dims=1)


def prepared_matmul(encoder, names: str) -> PreparedMatmul:
    """The kernels that a step reads: these of attention, k, v, feed-forward."""
    kernels, groups = [], []
    for block in encoder.blocks:
        own = block.rel_attn.kernels
        kernels += [own[name] for name in names if name in own]
        kernels += [block.ff.kernel_1, block.ff.kernel_2]
        groups.append([own["k"], own["v"]])
    return PreparedMatmul(kernels, groups, encoder.compute_dtype)


class Generator:
    """Continues prompts; the `banned` ids are never picked.

    A text ends with the id `eod`, and `pad` fills the rows after it.
    """

    def __init__(
        self, model: PretrainingModel, banned: np.ndarray, eod: int, pad: int
    ):
        self.model = model
        self.banned = banned
        self.eod = eod
        self.pad = pad
        # One trace per prompt length and option set.
        self._cached = tf.function(
            self._generate, reduce_retracing=False, autograph=False
        )
        self._forward = tf.function(
            self._last_logits, reduce_retracing=True, autograph=False
        )

    def generate(self, prompt: np.ndarray, options: SamplingOptions) -> Result:
        """Continues int32 [prompt length] >= 1 `options.num_samples` times."""
        run = self._cached if options.use_cache else self._without_cache
        tokens, log_probs = run(tf.constant(prompt, tf.int32), options)
        tokens, log_probs = np.asarray(tokens), np.asarray(log_probs)
        return Result.of(tokens, log_probs, tokens == self.eod)

    # --- Shared by both ways ----------------------------------------------

    def _pick(self, query, step, done, options):
        """The next token [B] and its log-probability [B]."""
        # Two dimensions: a batched product with few rows is far slower.
        logits = self.model.lm_logits(query[:, 0])  # [B, V]
        token, log_prob = picked(logits, self.banned, options, step)
        token = tf.where(done, self.pad, token)
        return token, tf.where(done, 0.0, log_prob)

    def _context(self, ids, prompt_length):
        """The model over text and one place more, whose query row is asked.

        `ids` [B, T]: the first `prompt_length` are context, the others are
        targets in left-to-right order.
        """
        batch, length = tf.shape(ids)[0], tf.shape(ids)[1]
        ids = tf.pad(ids, [[0, 0], [0, 1]])  # [B, T + 1]
        position = tf.range(length + 1) - prompt_length
        ranks = tf.tile(tf.maximum(position, -1)[tf.newaxis], [batch, 1])
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
        outputs = self._context(prompt[tf.newaxis], length)
        matmul = prepared_matmul(self.model.encoder, "qo")
        context = LayerContext(matmul=matmul)
        shared = self._shared(length + new)
        blocks = self.model.encoder.blocks
        prompts = [
            block.rel_attn.keys([states[:, :length]], 1, shared)
            for block, states in zip(
                blocks, outputs.hidden_states, strict=False
            )
        ]
        n, h = self.model.config.n_head, self.model.config.d_head
        caches = [
            tf.zeros([2, n, batch, new, h], block.compute_dtype)
            for block in blocks
        ]
        query = tf.repeat(outputs.query_output, batch, 0)
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
            query, caches = self._step(
                token, step - 1, caches, prompts, context
            )
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

    def _shared(self, capacity):
        """What all layers share: a table of the distances C..0, the biases."""
        encoder, config = self.model.encoder, self.model.config
        table = sinusoids.sinusoid_table(
            1, capacity, config.d_model, "uni", config.clamp_len
        )  # [1, C + 1, D]
        return table, *encoder.shared_biases()

    def _step(self, token, slot, caches, prompts, context):
        """Adds the token [B] at P + `slot`; the query row [B, 1, D] after it.

        Rows of x [B, 2, D]: the content of the token, then the query of the
        next one. A step is bound by reading the weights once, so all rows go
        through each matrix together.
        """
        encoder = self.model.encoder
        content = encoder.embeddings(token[:, tf.newaxis])  # [B, 1, D]
        query = encoder.embeddings.query_rows(token.shape[0], 1)
        x = tf.concat([content, query], 1)  # [B, 2, D]
        length, new = prompts[0].key_len, caches[0].shape[3]
        hidden = tf.range(length + new) > length + slot
        stream = Stream(masks.bias(hidden[tf.newaxis, tf.newaxis]))
        new_caches = []
        for block, cache, prompt in zip(
            encoder.blocks, caches, prompts, strict=True
        ):
            attention = block.rel_attn
            keys = attention.growing_keys(
                prompt, x[:, :1], cache, slot, context
            )
            x = attention(x, keys, stream, context)
            x = block.ff(x, context)
            new_caches.append(keys.cache)
        return x[:, 1:], new_caches
