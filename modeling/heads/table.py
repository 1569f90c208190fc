"""Which task model a set of weights belongs to."""

from collections.abc import Mapping, Sequence

import tf_keras

from common.errors import UserError
from modeling.encoders.xlnet.backbone import XLNetModel
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.heads.classification import (
    SUMMARY_SCOPE,
    ClassificationModel,
    MultipleChoiceModel,
    TokenClassificationModel,
)
from modeling.heads.language_model import PretrainingModel
from modeling.heads.question_answering import SpanModel

# Head -> a kernel or bias that only it has: canonical name, attribute path.
MARKERS = {
    "pretraining": ("model/lm_loss/bias", "lm_head/bias"),
    "classification": (
        "model/classification/logit/kernel",
        "class_dense/kernel",
    ),
    "regression": ("model/regression/logit/kernel", "value_dense/kernel"),
    "span": ("start_logits/dense/kernel", "start_dense/kernel"),
    "multiple_choice": ("logits/dense/kernel", "choice_dense/kernel"),
    "token_classification": (
        "model/token_classification/logit/kernel",
        "token_dense/kernel",
    ),
}
ENCODER = "encoder"
NAMES = (ENCODER, *MARKERS)

_NEXT_SENTENCE = (
    "model/next_sentence/logit/kernel",
    "next_sentence_dense/kernel",
)
_PROJECTION = (f"{SUMMARY_SCOPE}/summary/kernel", "pooler/projection/kernel")
_ATTENTION = (f"{SUMMARY_SCOPE}/summary_bias", "pooler/attention/summary_bias")


def find(names: Mapping | Sequence, source: str, wanted: str | None) -> str:
    """The head that canonical names or attribute paths belong to.

    Args:
      names: of all variables.
      source: for messages.
      wanted: a head of `NAMES`, or None for the only one there.

    Raises:
      UserError: several heads and none `wanted`, or the wanted one missing.
    """
    present = [
        head
        for head, markers in MARKERS.items()
        if any(marker in names for marker in markers)
    ]
    if wanted is not None:
        if wanted != ENCODER and wanted not in present:
            raise UserError(
                f"{source}: wanted the head `{wanted}`, found "
                f"{present or 'none'}"
            )
        return wanted
    if len(present) > 1:
        raise UserError(
            f"{source} holds the heads {present}: choose one with --head"
        )
    return present[0] if present else ENCODER


def build(
    head: str, config: XLNetConfig, shapes: Mapping[str, Sequence[int]]
) -> tf_keras.Model:
    """A model with this head, sized after the weights.

    Args:
      head: of `NAMES`.
      config: of the encoder.
      shapes: canonical name or attribute path -> shape.
    """

    def shape(pair):
        return next((shapes[name] for name in pair if name in shapes), None)

    if head == ENCODER:
        return XLNetModel(config)
    if head == "pretraining":
        return PretrainingModel(
            config, next_sentence=shape(_NEXT_SENTENCE) is not None
        )
    if head == "span":
        return SpanModel(config)
    outputs = shape(MARKERS[head])[-1]
    if head == "token_classification":
        return TokenClassificationModel(config, outputs)
    pooling = dict(
        summary_type="attn" if shape(_ATTENTION) is not None else "last",
        use_proj=shape(_PROJECTION) is not None,
    )
    if head == "multiple_choice":
        return MultipleChoiceModel(config, **pooling)
    return ClassificationModel(
        config, outputs, regression=head == "regression", **pooling
    )
