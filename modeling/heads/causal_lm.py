"""The left-to-right language model: a causal encoder and its tied softmax.

Letters: B batch, T length, n rows, D model, E embedding, V vocabulary.
"""

import tensorflow as tf

from modeling.heads.adaptive_softmax import AdaptiveSoftmax
from modeling.models.task_model import TaskModel


class CausalLanguageModel(TaskModel):
    """Transformer-XL's objective: every token from those before it.

    A call is the encoder's: `sequence_output` [B, T, D] goes to
    `token_losses` or `log_probs`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.softmax = AdaptiveSoftmax(self.config, name="adaptive_softmax")
        with tf.name_scope("transformer"):
            self.softmax.build(None)

    def call(self, input_ids, training=False, seed=None, **arguments):
        """The encoder's `EncoderOutput`; arguments as the encoder's."""
        return self.encode(input_ids, training=training, seed=seed, **arguments)

    def empty_memory(self, batch: int) -> tuple[tuple, tf.Tensor]:
        """What a text begins with: (L tensors [B, M, D], int32 [B] zeros)."""
        config = self.config
        shape = [batch, config.mem_len or 0, config.d_model]
        layers = (tf.zeros(shape, self.compute_dtype),) * config.n_layer
        return layers, tf.zeros([batch], tf.int32)

    def read_on(
        self,
        input_ids: tf.Tensor,
        layers: tuple[tf.Tensor, ...],
        length: tf.Tensor,
        training: bool = False,
        seed: tf.Tensor | None = None,
    ):
        """`EncoderOutput` of a segment after others, whose text may begin here.

        With `memory_start` "zeros" a row without memory sees M zero vectors,
        as in the original; with "hidden" it sees its own segment only.

        Args:
          layers: L tensors [B, M, D], M slots whether filled or not.
          length: int32 [B], so many of the last slots are filled.
        """
        arguments = {"memory": layers, "memory_length": length}
        if self.config.memory_start == "zeros":
            kept = (length > 0)[:, tf.newaxis, tf.newaxis]  # [B, 1, 1]
            zeroed = tuple(tf.where(kept, layer, 0) for layer in layers)
            arguments = {"memory": zeroed}
        return self(input_ids, training=training, seed=seed, **arguments)

    def token_losses(
        self,
        hidden: tf.Tensor,
        target_ids: tf.Tensor,
        chunk_size: int | None = None,
        tables: tuple[tf.Tensor, ...] | None = None,
    ) -> tf.Tensor:
        """-log p of every target int [B, T], in order, float32 [B, T].

        Args:
          hidden: [B, T, D], `sequence_output`.
          chunk_size: rows of logits alive at a time, made again in the
            backward pass; None = all of the head's, a fixed number of a tail
            cluster's.
        """
        flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
        losses = self.softmax.token_losses(
            flat,
            tf.reshape(target_ids, [-1]),
            self.encoder.embeddings,
            chunk_size,
            tables,
        )
        return tf.reshape(losses, tf.shape(target_ids))

    def log_probs(self, hidden: tf.Tensor, tables=None) -> tf.Tensor:
        """[..., D] -> float32 [..., V], log-probabilities of all ids.

        `tables` are those of the softmax, where a loop made them before it.
        """
        flat = tf.reshape(tf.cast(hidden, tf.float32), [-1, hidden.shape[-1]])
        log_probs = self.softmax.log_probs(
            flat, self.encoder.embeddings, tables
        )
        size = self.config.vocab_size
        shape = tf.concat([tf.shape(hidden)[:-1], [size]], 0)
        return tf.ensure_shape(
            tf.reshape(log_probs, shape), [*hidden.shape[:-1], size]
        )

    def head_variable_paths(self):
        scope = self.encoder.scope + "adaptive_softmax/"
        return {
            scope + name: f"softmax/{path}"
            for name, path in self.softmax.variable_paths().items()
        }
