"""`assets.extra/tf_serving_warmup_requests`: what TF-Serving runs at start.

A TFRecord file of `tensorflow.serving.PredictionLog` messages. Three nested
messages with four fields are written by hand here, so that an export needs no
package beside TensorFlow; a test reads them back with TF-Serving's own classes.
"""

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from common.vocabularies.protobuf import field

FILE_NAME = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Field numbers of tensorflow_serving/apis/{prediction_log,predict,model}.proto.
_LOG_PREDICT = 6
_PREDICT_LOG_REQUEST = 1
_REQUEST_MODEL_SPEC, _REQUEST_INPUTS = 1, 2
_MODEL_SPEC_NAME, _MODEL_SPEC_SIGNATURE = 1, 3
_MAP_KEY, _MAP_VALUE = 1, 2


def prediction_log(
    model_name: str, signature_name: str, inputs: Mapping[str, np.ndarray]
) -> bytes:
    """A serialized PredictionLog with one PredictRequest."""
    spec = field(_MODEL_SPEC_NAME, model_name.encode())
    spec += field(_MODEL_SPEC_SIGNATURE, signature_name.encode())
    request = field(_REQUEST_MODEL_SPEC, spec)
    for name, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        entry = field(_MAP_KEY, name.encode()) + field(_MAP_VALUE, tensor)
        request += field(_REQUEST_INPUTS, entry)
    return field(_LOG_PREDICT, field(_PREDICT_LOG_REQUEST, request))


def write(
    version_dir: str,
    model_name: str,
    requests: Mapping[str, Mapping[str, np.ndarray]],
) -> None:
    """Writes one warm-up request per signature name."""
    path = os.path.join(version_dir, FILE_NAME)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.TFRecordWriter(path) as writer:
        for name, inputs in requests.items():
            writer.write(prediction_log(model_name, name, inputs))
