"""One vector per sequence: last, first, mean or attention pooling."""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from common.heads import SUMMARY_POOLINGS, SUMMARY_TYPES
from common.references import resolve
from modeling.attention.masks import MASK_VALUE
from modeling.encoders.base import ConfiguredLayer
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from modeling.encoders.stack import check_choice
from modeling.ops import dropout, initializers, saving
from modeling.ops.normalization import LayerNorm

# Canonical names: ModernBERT's head before decoder and classifiers, and what
# only a language model has beside it.
_PREDICTION_HEAD = (
    "model/lm_loss/transform/kernel",
    "pooler/projection/dense/kernel",
)
_LANGUAGE_MODEL = ("model/lm_loss/bias",)


def has_prediction_head(shape: Callable) -> bool:
    """Whether the logits of a head read ModernBERT's prediction head."""
    has_transform = shape(_PREDICTION_HEAD) is not None
    return has_transform and shape(_LANGUAGE_MODEL) is None


def build_pooler(
    config: EncoderConfig,
    summary_type: str | None = None,
    use_proj: bool = True,
    pooling: str = "masked",
) -> "SequenceSummary":
    """The encoder's kind of `SequenceSummary`.

    `summary_type` None is the place of CLS in the encoder's layout.
    """
    spec = spec_of(config.model_type)
    pooler = resolve(spec.pooler)(
        config, summary_type, use_proj, pooling, name="summary"
    )
    pooler.build([None, None, config.d_model])
    return pooler


def end_of_row(input_mask: tf.Tensor, end: str) -> tf.Tensor:
    """int32 [B], the "first" or the "last" real token of [B, T]."""
    real = tf.cast(tf.cast(input_mask, tf.bool), tf.int32)
    if end == "first":
        return tf.argmax(real, 1, tf.int32)
    back = tf.argmax(tf.reverse(real, [1]), 1, tf.int32)
    return tf.shape(real)[1] - 1 - back


class SequenceSummary(ConfiguredLayer):
    """Pools [B, T, D] to float32 [B, D], then tanh(W x) and dropout.

    `last` is the last real token, which is CLS in every input that we build,
    or the position that the caller gives; padding may lie on either side.

    Args:
      summary_type: "last", "first", "mean" or "attn"; None = where CLS is:
        "first" or "last".
      pooling: "masked" looks at real tokens only; "original" takes the first
        or last position and the mean over all, padding included.
    """

    def __init__(
        self,
        config: EncoderConfig | dict,
        summary_type: str | None = None,
        use_proj: bool = True,
        pooling: str = "masked",
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        config = self.config
        if summary_type is None:
            summary_type = spec_of(config.model_type).capabilities.summary_type
        check_choice("summary_type", summary_type, SUMMARY_TYPES)
        check_choice("pooling", pooling, SUMMARY_POOLINGS)
        self.summary_type = summary_type
        self.use_proj = use_proj
        self.pooling = pooling
        self.attention = None
        if summary_type == "attn":
            self.attention = AttentionPooling(config, name="abs_attn")
        self.projection = None
        if use_proj:
            self.projection = self.make_projection()

    def paths_elsewhere(self) -> dict[str, str]:
        """Attribute paths in models with another head -> canonical names."""
        return {}

    def make_projection(self) -> tf_keras.layers.Layer:
        """tanh(W x + b), float32 [..., D] -> [..., D]."""
        width = self.config.d_model
        return saving.dense_of(self.config, width, "summary", activation="tanh")

    def build(self, input_shape):
        if self.built:  # Keras builds what it reads from a configuration
            return
        if self.attention is not None:
            self.attention.build(input_shape)
        if self.projection is not None:
            self.projection.build([None, self.config.d_model])
        super().build(input_shape)

    def call(
        self, hidden, input_mask=None, cls_index=None, training=False, seed=None
    ):
        """Pools [B, T, D] to float32 [B, D].

        Args:
          input_mask: [B, T], 1 = real token; None = all.
          cls_index: int [B] or a number, overrides the last real token.
          seed: int32 [2].
        """
        seed = seed if training else None
        hidden = tf.cast(hidden, tf.float32)
        if self.attention is not None:
            pooled = self.attention(
                hidden, input_mask=input_mask, training=training, seed=seed
            )
        elif self.summary_type == "mean":
            pooled = self._mean(hidden, input_mask)
        else:
            pooled = self._pick(hidden, input_mask, cls_index)
        if self.projection is not None:
            pooled = self.projection(pooled)  # [B, D]
        # Some encoders have a rate of its own before a classifier.
        rate = getattr(self.config, "head_dropout", self.config.dropout)
        return dropout.dropout(pooled, rate, seed, dropout.SUMMARY)

    def _mean(self, hidden, input_mask):
        if input_mask is None or self.pooling == "original":
            return tf.reduce_mean(hidden, 1)  # [B, D]
        weights = tf.cast(input_mask, tf.float32)[..., tf.newaxis]
        count = tf.maximum(tf.reduce_sum(weights, 1), 1.0)
        return tf.reduce_sum(hidden * weights, 1) / count  # [B, D]

    def _pick(self, hidden, input_mask, cls_index):
        if self.summary_type == "last" and cls_index is not None:
            batch = tf.shape(hidden)[0]
            index = tf.broadcast_to(tf.cast(cls_index, tf.int32), [batch])
            return tf.gather(hidden, index, batch_dims=1)  # [B, D]
        if input_mask is None or self.pooling == "original":
            return hidden[:, -1 if self.summary_type == "last" else 0]
        index = end_of_row(input_mask, self.summary_type)
        return tf.gather(hidden, index, batch_dims=1)  # [B, D]

    # Its variables' own scope, where the head's is not meant.
    scope: str | None = None

    def variable_paths(self) -> dict[str, str]:
        """Names below the original's (misspelt) scope -> attribute paths."""
        paths = {}
        if self.attention is not None:
            for name, path in self.attention.variable_paths().items():
                paths[name] = f"attention/{path}"
        if self.projection is not None:
            paths["summary/kernel"] = "projection/kernel"
            paths["summary/bias"] = "projection/bias"
        return paths


class AttentionPooling(ConfiguredLayer):
    """LayerNorm(O attention) of one learned query, no residual, float32.

    Call: [B, T, D] -> [B, D].
    """

    def __init__(self, config: EncoderConfig | dict, **kwargs):
        super().__init__(config, **(kwargs | {"dtype": "float32"}))
        self.norm = LayerNorm(name="LayerNorm", dtype="float32")

    def build(self, input_shape):
        config = self.config
        serialised = initializers.from_config(config)

        def add(name, shape):
            return self.add_weight(
                name, shape, initializer=initializers.fresh(serialised)
            )

        self.summary_bias = add("summary_bias", [config.d_model])
        shape = [config.d_model, config.n_head, config.d_head]
        self.kernels = {name: add(f"{name}_kernel", shape) for name in "qkvo"}
        self.norm.build([None, config.d_model])
        super().build(input_shape)

    def call(self, hidden, input_mask=None, training=False, seed=None):
        """[B, T, D] -> [B, D]; padding (`input_mask` 0) is not attended."""
        seed = seed if training else None
        q = tf.einsum("d,dnh->nh", self.summary_bias, self.kernels["q"])
        k = tf.einsum("btd,dnh->bnth", hidden, self.kernels["k"])
        v = tf.einsum("btd,dnh->bnth", hidden, self.kernels["v"])
        scores = tf.einsum("nh,bnth->bnt", q, k) * self.config.d_head**-0.5
        if input_mask is not None:
            pad = 1.0 - tf.cast(input_mask, tf.float32)  # [B, T]
            scores += MASK_VALUE * pad[:, tf.newaxis]
        probabilities = dropout.dropout(
            tf.nn.softmax(scores),
            self.config.dropatt,
            seed,
            dropout.SUMMARY_PROBABILITIES,
        )  # [B, N, T]
        vector = tf.einsum("bnt,bnth->bnh", probabilities, v)
        out = tf.einsum("bnh,dnh->bd", vector, self.kernels["o"])
        out = dropout.dropout(out, self.config.dropout, seed, dropout.HEAD)
        return self.norm(out)  # [B, D]

    def variable_paths(self) -> dict[str, str]:
        """The original's variable names -> attribute paths."""
        paths = {"summary_bias": "summary_bias"}
        for name in self.kernels:
            paths[f"abs_attn/{name}/kernel"] = f"kernels/{name}"
        paths["abs_attn/LayerNorm/gamma"] = "norm/gamma"
        paths["abs_attn/LayerNorm/beta"] = "norm/beta"
        return paths
