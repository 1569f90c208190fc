"""Words, segments and positions, summed and normalised (BERT, section 3)."""

import tensorflow as tf

from modeling.encoders.base import ConfiguredLayer
from modeling.encoders.bert.config import BertConfig
from modeling.ops import dropout, initializers, tied
from modeling.ops.normalization import LayerNorm


class BertEmbeddings(ConfiguredLayer):
    """dropout(LayerNorm(word + segment + position)), tables E wide."""

    def __init__(self, config: BertConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        self.norm = LayerNorm(
            self.config.layer_norm_eps,
            name="LayerNorm",
            dtype=self.dtype_policy,
        )

    def build(self, input_shape):
        config = self.config
        width = config.d_embedding
        initial = initializers.from_config(config)
        for name, rows in (
            ("lookup_table", config.vocab_size),
            ("segment_table", config.type_vocab_size),
            ("position_table", config.max_position_embeddings),
        ):
            setattr(self, name, self.add_kept(name, [rows, width], initial))
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, width])
        super().build(input_shape)

    def call(
        self,
        ids,
        segment_ids=None,
        positions=None,
        seed=None,
        reader=tied.PLAIN,
    ):
        """[B, T, E] of a batch of rows; `seed` of the model's outer sites."""
        rows = reader(self.lookup_table, ids)
        rows += self._segments(segment_ids)  # [B, T, E]
        table = tf.convert_to_tensor(self.position_table)
        if positions is None:
            length = ids.shape[1] or tf.shape(ids)[1]
            rows += table[tf.newaxis, :length]
        else:
            rows += tf.gather(table, positions)
        rows = self.norm(tf.cast(rows, self.compute_dtype))
        return dropout.dropout(
            rows, self.config.dropout, seed, dropout.EMBEDDING
        )

    def _segments(self, segment_ids):
        table = tf.convert_to_tensor(self.segment_table)
        if segment_ids is None:
            return table[0]
        # Two rows: a matmul's gradient beats that of a gather by far.
        choice = tf.one_hot(segment_ids, table.shape[0], dtype=table.dtype)
        return tf.einsum("bts,se->bte", choice, table)

    def variable_paths(self) -> dict[str, str]:
        """Canonical names -> attribute paths."""
        return {
            "word_embedding/lookup_table": "lookup_table",
            "segment_embedding/lookup_table": "segment_table",
            "position_embedding/lookup_table": "position_table",
            "embedding/LayerNorm/gamma": "norm/gamma",
            "embedding/LayerNorm/beta": "norm/beta",
        }
