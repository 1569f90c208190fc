"""XLNet and its Transformer-XL backbone in tf_keras."""

from modeling.encoders.base import EncoderOutput
from modeling.encoders.xlnet.backbone import XLNetModel
from modeling.encoders.xlnet.config import XLNetConfig
from modeling.heads.classification import (
    ClassificationModel,
    MultipleChoiceModel,
    TokenClassificationModel,
)
from modeling.heads.language_model import PretrainingModel
from modeling.heads.question_answering import (
    SpanModel,
    SpanOutput,
    SpanTrainingOutput,
)

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
    "EncoderOutput",
]
