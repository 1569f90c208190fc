"""The layer before decoder and classifier, the same in every head."""

import tensorflow as tf

from modeling.encoders.base import ConfiguredLayer
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import config_from_dict
from modeling.heads.language_model import LanguageModelHead
from modeling.heads.pooling import SequenceSummary
from modeling.ops import saving
from modeling.ops.feed_forward import ACTIVATIONS
from modeling.ops.normalization import LayerNorm

# Of its variables, whatever the head.
SCOPE = "model/lm_loss"


class PredictionHead(ConfiguredLayer):
    """LayerNorm(act(W x)), without biases, float32.

    Call: [..., D] -> [..., D].
    """

    def __init__(self, config: ModernBertConfig | dict, **kwargs):
        super().__init__(config, **(kwargs | {"dtype": "float32"}))
        config = self.config
        self.dense = saving.dense_of(
            config, config.d_model, "dense", use_bias=False
        )
        self.norm = LayerNorm(
            config.norm_eps, use_bias=False, name="LayerNorm", dtype="float32"
        )

    def build(self, input_shape):
        self.dense.build([None, self.config.d_model])
        self.norm.build([None, self.config.d_model])
        super().build(input_shape)

    def call(self, hidden):
        x = self.dense(tf.cast(hidden, tf.float32))
        return self.norm(ACTIVATIONS[self.config.head_activation](x))

    def variable_paths(self) -> dict[str, str]:
        """Names below `SCOPE` -> attribute paths."""
        return {
            "transform/kernel": "dense/kernel",
            "LayerNorm/gamma": "norm/gamma",
        }


class ModernBertLanguageModelHead(LanguageModelHead):
    """`PredictionHead`, then the tied decoder and its bias."""

    def __init__(self, config: ModernBertConfig | dict, **kwargs):
        super().__init__(config, **kwargs)
        self.head = PredictionHead(self.config, name="head")

    def build(self, input_shape):
        self.head.build(None)
        super().build(input_shape)

    def transform(self, hidden: tf.Tensor) -> tf.Tensor:
        """[..., D] -> float32 [..., D]."""
        return self.head(hidden)

    def variable_paths(self) -> dict[str, str]:
        paths = self.head.variable_paths()
        return super().variable_paths() | {
            name: f"head/{path}" for name, path in paths.items()
        }


class ModernBertSummary(SequenceSummary):
    """A `SequenceSummary` whose projection is a `PredictionHead`.

    Fine-tuning goes on with the one of the language model. Without a
    `summary_type` the configuration's `pooling` is taken.
    """

    scope = SCOPE

    def __init__(
        self, config, summary_type: str | None = None, *args, **kwargs
    ):
        config = config_from_dict(config)
        if summary_type is None and config.pooling == "mean":
            summary_type = "mean"
        super().__init__(config, summary_type, *args, **kwargs)

    def make_projection(self):
        return PredictionHead(self.config, name="head")

    def paths_elsewhere(self) -> dict[str, str]:
        """See `SequenceSummary`: those of the language model."""
        if self.projection is None:
            return {}
        return {
            f"lm_head/head/{path}": f"{SCOPE}/{name}"
            for name, path in self.projection.variable_paths().items()
        }

    def variable_paths(self) -> dict[str, str]:
        """See `SequenceSummary`; below `SCOPE`."""
        paths = {
            name: path
            for name, path in super().variable_paths().items()
            if not name.startswith("summary/")
        }
        if self.projection is not None:
            for name, path in self.projection.variable_paths().items():
                paths[name] = f"projection/{path}"
        return paths
