"""One vector of a text: what sentence encoders are asked for."""

import tensorflow as tf

from common.heads import TEXT_POOLINGS
from modeling.encoders.registry import spec_of
from modeling.models.task_model import TaskModel


class EmbeddingModel(TaskModel):
    """The last hidden states of a row, pooled; it has no weights of its own.

    Args:
      pooling: "mean", "max", the vector of "cls", or that of the "last" piece.
      with_symbols: CLS and SEP enter the mean and the maximum, too.
      dimensions: the first so many numbers of a vector; 0 = all D.

    Call: the backbone's arguments -> float32 [B, D or `dimensions`]. A row is
    `CLS pieces SEP` or `pieces SEP CLS`, padded on either side; one without
    pieces has the vector of CLS.
    """

    def __init__(
        self,
        config,
        pooling: str = "mean",
        normalize: bool = False,
        with_symbols: bool = False,
        dimensions: int = 0,
        **kwargs,
    ):
        if pooling not in TEXT_POOLINGS:
            raise ValueError(
                f"`pooling` must be one of {TEXT_POOLINGS}, received {pooling!r}"
            )
        super().__init__(config, **kwargs)
        self.pooling = pooling
        self.normalize = normalize
        self.with_symbols = with_symbols
        self.dimensions = dimensions

    def call(self, input_ids, training=False, seed=None, **arguments):
        """The vectors; arguments as the encoder's."""
        output = self.encode(
            input_ids, training=training, seed=seed, **arguments
        )
        mask = arguments.get("input_mask")
        if mask is None:
            mask = tf.ones_like(input_ids)
        hidden = tf.cast(output.sequence_output, tf.float32)  # [B, T, D]
        pooled = self._pooled(hidden, tf.cast(mask, tf.int32))
        if self.normalize:
            pooled = tf.math.l2_normalize(pooled, -1, 1e-24)
        return pooled[:, : self.dimensions] if self.dimensions else pooled

    def _pooled(self, hidden: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """[B, D] of [B, T, D] and a mask [B, T]."""
        real = tf.cast(mask, tf.bool)
        behind = tf.cumsum(mask, 1, reverse=True)  # real tokens from here on
        before = tf.cumsum(mask, 1)
        able = spec_of(self.config.model_type).capabilities
        if able.summary_type == "first":
            is_cls = real & (before == 1)
            used = real & (before > 1) & (behind > 1)
        else:
            is_cls = real & (behind == 1)
            used = real & (behind > 2)
        if self.with_symbols:
            used = real
        if self.pooling == "last":
            later = tf.cumsum(tf.cast(used, tf.int32), 1, reverse=True)
            used &= later == 1
        cls = _mean(hidden, is_cls)
        if self.pooling == "cls":
            return cls
        if self.pooling == "max":
            least = tf.fill(tf.shape(hidden), hidden.dtype.min)
            kept = tf.where(used[:, :, tf.newaxis], hidden, least)
            pooled = tf.reduce_max(kept, 1)
        else:
            pooled = _mean(hidden, used)
        there = tf.reduce_any(used, 1, keepdims=True)
        return tf.where(there, pooled, cls)


def _mean(hidden: tf.Tensor, used: tf.Tensor) -> tf.Tensor:
    """[B, D]: the mean of the tokens [B, T] that are used."""
    weights = tf.cast(used, hidden.dtype)
    total = tf.einsum("btd,bt->bd", hidden, weights)
    return total / tf.maximum(tf.reduce_sum(weights, 1, keepdims=True), 1.0)
