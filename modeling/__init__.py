"""XLNet and its Transformer-XL backbone in tf_keras.

Names are imported when they are asked for: commands show their help, and tell
a wrong flag, before TensorFlow is loaded.
"""

from common.references import on_demand

_MODULES = {
    "ClassificationModel": "modeling.heads.classification",
    "MultipleChoiceModel": "modeling.heads.classification",
    "TokenClassificationModel": "modeling.heads.classification",
    "PretrainingModel": "modeling.heads.language_model",
    "SpanModel": "modeling.heads.question_answering",
    "SpanOutput": "modeling.heads.question_answering",
    "SpanTrainingOutput": "modeling.heads.question_answering",
    "XLNetConfig": "modeling.encoders.xlnet.config",
    "XLNetModel": "modeling.encoders.xlnet.backbone",
    "EncoderOutput": "modeling.encoders.base",
}
__all__ = list(_MODULES)

__getattr__ = on_demand(__name__, _MODULES)
