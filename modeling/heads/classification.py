"""Sequence and token classification, regression, multiple choice."""

import tensorflow as tf

from common.heads import SUMMARY_SCOPE
from modeling.heads.pooling import build_pooler, has_prediction_head
from modeling.models.task_model import TaskModel, dense_paths, pooler_paths
from modeling.ops.shapes import sizes

# Variables of the pooler: canonical names, attribute paths; ModernBERT's are
# those of its prediction head.
_PROJECTION = (
    f"{SUMMARY_SCOPE}/summary/kernel",
    "pooler/projection/kernel",
    "pooler/projection/dense/kernel",
)
_ATTENTION = (
    f"{SUMMARY_SCOPE}/summary_bias",
    "model/lm_loss/summary_bias",
    "pooler/attention/summary_bias",
)


class PooledModel(TaskModel):
    """Base of the models that read one vector of a row.

    Args:
      summary_type: "last", "first", "mean" or "attn"; None = where CLS is.
      use_proj: tanh projection of the summary.
      pooling: "masked", or "original" (padding included).
    """

    def __init__(
        self,
        config,
        summary_type: str | None = None,
        use_proj: bool = True,
        pooling: str = "masked",
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.use_proj = use_proj
        self.pooling = pooling
        self.pooler = build_pooler(self.config, summary_type, use_proj, pooling)
        self.summary_type = self.pooler.summary_type

    @classmethod
    def options_of(cls, shape):
        projected = shape(_PROJECTION) is not None
        return {
            "summary_type": None if shape(_ATTENTION) is None else "attn",
            "use_proj": projected or has_prediction_head(shape),
        }


class ClassificationModel(PooledModel):
    """Logits of a whole sequence: classes, labels or one value.

    Args:
      num_labels: Y; 1 for regression.
      summary_type, use_proj, pooling: see `PooledModel`.
      regression: name the head so in checkpoints.
      cls_index: fixed position of CLS for "last"; None = last real token.

    Call: the backbone's arguments and `cls_index` -> float32 [B, Y].
    """

    def __init__(
        self,
        config,
        num_labels: int,
        summary_type: str | None = None,
        use_proj: bool = True,
        regression: bool = False,
        cls_index: int | None = None,
        pooling: str = "masked",
        **kwargs,
    ):
        super().__init__(config, summary_type, use_proj, pooling, **kwargs)
        self.num_labels = num_labels
        self.regression = regression
        self.cls_index = cls_index
        # Two names, so that a checkpoint tells which kind of head it holds.
        self.logit_name = "value_dense" if regression else "class_dense"
        setattr(self, self.logit_name, self.dense(num_labels, "logit"))

    def call(
        self, input_ids, cls_index=None, training=False, seed=None, **arguments
    ):
        """float32 [B, Y]; arguments as the encoder's."""
        output = self.encode(
            input_ids, training=training, seed=seed, **arguments
        )
        return self.logits(
            output.sequence_output,
            arguments.get("input_mask"),
            cls_index,
            training,
            seed,
        )

    def logits(
        self,
        hidden: tf.Tensor,
        input_mask: tf.Tensor | None = None,
        cls_index: tf.Tensor | None = None,
        training: bool = False,
        seed: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """float32 [B, Y] from hidden states [B, T, D]."""
        pooled = self.pooler(
            hidden,
            input_mask=input_mask,
            cls_index=self.cls_index if cls_index is None else cls_index,
            training=training,
            seed=self.head_seed(training, seed),
        )
        return getattr(self, self.logit_name)(pooled)

    def head_variable_paths(self):
        scope = "regression" if self.regression else "classification"
        return pooler_paths(SUMMARY_SCOPE, self.pooler) | dense_paths(
            f"model/{scope}/logit", self.logit_name
        )


class MultipleChoiceModel(PooledModel):
    """One logit per option (RACE): each option is a row of its own.

    Call: ids, segment ids and input mask [B, C, T] -> float32 [B, C].
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.choice_dense = self.dense(1, "logit")

    def call(
        self,
        input_ids,
        segment_ids=None,
        input_mask=None,
        cls_index=None,
        training=False,
        seed=None,
        **arguments,
    ):
        """float32 [B, C]; `cls_index` is int [B, C] or None."""
        input_ids = tf.convert_to_tensor(input_ids)
        _, options, length = sizes(input_ids)

        def rows(x):  # [B, C, T] -> [B*C, T]
            return None if x is None else tf.reshape(x, [-1, length])

        input_mask = rows(input_mask)
        hidden = self.encode(
            rows(input_ids),
            segment_ids=rows(segment_ids),
            input_mask=input_mask,
            training=training,
            seed=seed,
            **arguments,
        ).sequence_output  # [B*C, T, D]
        pooled = self.pooler(
            hidden,
            input_mask=input_mask,
            cls_index=None
            if cls_index is None
            else tf.reshape(cls_index, [-1]),
            training=training,
            seed=self.head_seed(training, seed),
        )
        return tf.reshape(self.choice_dense(pooled), [-1, options])  # [B, C]

    def head_variable_paths(self):
        return pooler_paths(SUMMARY_SCOPE, self.pooler) | dense_paths(
            "logits/dense", "choice_dense"
        )


class TokenClassificationModel(TaskModel):
    """One label per token: the backbone's arguments -> float32 [B, T, Y].

    Args:
      use_proj: the logits read the pooler's projection of every token, as
        Hugging Face's ModernBERT has it.
    """

    def __init__(
        self, config, num_labels: int, use_proj: bool = False, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.use_proj = use_proj
        self.pooler = None
        if use_proj:
            self.pooler = build_pooler(self.config, "first")
        self.token_dense = self.dense(num_labels, "logit")

    @classmethod
    def options_of(cls, shape):
        return {"use_proj": has_prediction_head(shape)}

    def call(self, input_ids, training=False, seed=None, **arguments):
        """float32 [B, T, Y]; arguments as the encoder's."""
        output = self.encode(
            input_ids, training=training, seed=seed, **arguments
        )
        hidden = output.sequence_output
        if self.pooler is not None:
            hidden = self.pooler.projection(hidden)
        return self.token_dense(hidden)

    def head_variable_paths(self):
        scope = "model/token_classification/logit"
        own = dense_paths(scope, "token_dense")
        if self.pooler is None:
            return own
        return own | pooler_paths(scope, self.pooler)
