"""XLNet and its Transformer-XL backbone in tf_keras."""

from modeling.backbone import XLNetModel, XLNetOutput
from modeling.classification import (
    ClassificationModel,
    MultipleChoiceModel,
    TokenClassificationModel,
)
from modeling.config import XLNetConfig
from modeling.pretraining import PretrainingModel
from modeling.span import SpanModel, SpanOutput, SpanTrainingOutput

__all__ = [
    "ClassificationModel",
    "MultipleChoiceModel",
    "PretrainingModel",
    "SpanModel",
    "SpanOutput",
    "SpanTrainingOutput",
    "TokenClassificationModel",
    "XLNetConfig",
    "XLNetModel",
    "XLNetOutput",
]
