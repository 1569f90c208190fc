"""Word embeddings and the vector that starts the query stream."""

import tensorflow as tf

from modeling.ops import saving, tied


class Embeddings(saving.Layer):
    """`lookup_table` [V, D] and `mask_emb` [1, 1, D]; int [B, T] -> [B, T, D].

    The result is of the compute type; the initializer of both is serialised.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        initializer: dict | str = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.initializer = initializer

    def build(self, input_shape):
        with tf.name_scope("word_embedding"):
            self.lookup_table = self.add_kept(
                "lookup_table",
                [self.vocab_size, self.d_model],
                self.initializer,
            )
        with tf.name_scope("mask_emb"):
            self.mask_emb = self.add_kept(
                "mask_emb", [1, 1, self.d_model], self.initializer
            )
        super().build(input_shape)

    def call(self, ids, reader=tied.PLAIN):
        """int [B, T] -> [B, T, D]."""
        rows = reader(self.lookup_table, ids)  # [B, T, D]
        return tf.cast(rows, self.compute_dtype)

    def query_rows(self, batch: int, count: int) -> tf.Tensor:
        """The start of P query rows, [B, P, D]."""
        start = tf.cast(self.mask_emb, self.compute_dtype)
        return tf.tile(start, [batch, count, 1])

    def mixed_rows(self, rows: tf.Tensor, where: tf.Tensor) -> tf.Tensor:
        """`mask_emb` where `where` [B, T] is 1, `rows` [B, T, D] elsewhere."""
        where = tf.cast(where, rows.dtype)[..., tf.newaxis]
        return where * tf.cast(self.mask_emb, rows.dtype) + (1 - where) * rows

    def variable_paths(self) -> dict[str, str]:
        """The original's variable names -> attribute paths."""
        return {
            "word_embedding/lookup_table": "lookup_table",
            "mask_emb/mask_emb": "mask_emb",
        }
