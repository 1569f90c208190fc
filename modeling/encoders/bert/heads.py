"""The masked language model's head: a layer before the tied decoder."""

import tensorflow as tf

from modeling.encoders.bert.config import BertConfig
from modeling.heads.language_model import LanguageModelHead
from modeling.ops import saving
from modeling.ops.feed_forward import ACTIVATIONS
from modeling.ops.normalization import LayerNorm


class BertLanguageModelHead(LanguageModelHead):
    """LayerNorm(act(W x + b)) D -> E, then the tied decoder and its bias."""

    def __init__(self, config: BertConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        config = self.config
        self.dense = saving.dense_of(config, config.d_embedding, "transform")
        self.norm = LayerNorm(
            config.layer_norm_eps, name="LayerNorm", dtype="float32"
        )

    def build(self, input_shape):
        self.dense.build([None, self.config.d_model])
        self.norm.build([None, self.config.d_embedding])
        super().build(input_shape)

    def transform(self, hidden: tf.Tensor) -> tf.Tensor:
        """[..., D] -> float32 [..., E]."""
        x = self.dense(tf.cast(hidden, tf.float32))
        return self.norm(ACTIVATIONS[self.config.ff_activation](x))

    def variable_paths(self) -> dict[str, str]:
        return super().variable_paths() | {
            "transform/kernel": "dense/kernel",
            "transform/bias": "dense/bias",
            "LayerNorm/gamma": "norm/gamma",
            "LayerNorm/beta": "norm/beta",
        }
