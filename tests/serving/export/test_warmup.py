"""Requests that TF-Serving runs at its start, byte by byte."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from serving.export import warmup


def test_warmup_requests_are_what_tf_serving_reads(tmp_path):
    """Checked by TF-Serving's own classes where they are installed."""
    inputs = {"text": np.array([b"a", b"bc"], object)}
    warmup.write(str(tmp_path), "name", {"serving_default": inputs})
    path = str(tmp_path / warmup.FILE_NAME)
    records = [r.numpy() for r in tf.data.TFRecordDataset(path)]
    assert records == [warmup.prediction_log("name", "serving_default", inputs)]
    apis = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    log = apis.PredictionLog.FromString(records[0])
    request = log.predict_log.request
    assert request.model_spec.name == "name"
    assert request.model_spec.signature_name == "serving_default"
    value = tf.make_ndarray(request.inputs["text"])
    assert value.tolist() == [b"a", b"bc"]


def varint(data, at):
    """(value, place behind it)."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, payload) of every field of a message."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        size, at = varint(data, at)
        assert key & 7 == 2, "a length-delimited field"
        found.append((key >> 3, data[at : at + size]))
        at += size
    assert at == len(data)
    return found


def test_a_request_holds_its_tensors_under_their_names():
    """Messages of all lengths: of one byte, of two and of three."""
    inputs = {
        "text": np.array([b"x" * 300, "caf\u00e9".encode()], object),
        "ids": np.arange(6000, dtype=np.int32).reshape(2, 3000),
        "shares": np.array([0.5, -1.25], np.float32),
    }
    ((number, log),) = fields(
        warmup.prediction_log("m" * 200, "serving_default", inputs)
    )
    assert number == 6
    ((number, request),) = fields(log)
    assert number == 1
    (first, spec), *entries = fields(request)
    assert first == 1
    assert fields(spec) == [(1, b"m" * 200), (3, b"serving_default")]
    assert {n for n, _ in entries} == {2}
    names = []
    for _, entry in entries:
        (key, name), (value, tensor) = fields(entry)
        assert (key, value) == (1, 2)
        names.append(name.decode())
        found = tf.make_ndarray(tensor_pb2.TensorProto.FromString(tensor))
        wanted = inputs[names[-1]]
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    assert names == ["ids", "shares", "text"]


def test_every_signature_is_run_once(tmp_path):
    requests = {
        name: {"x": np.array([value], np.int32)}
        for name, value in (("serving_default", 3), ("ids", 400))
    }
    warmup.write(str(tmp_path / "1"), "xlnet", requests)
    path = str(tmp_path / "1" / "assets.extra" / "tf_serving_warmup_requests")
    found = [r.numpy() for r in tf.data.TFRecordDataset(path)]
    assert found == [
        warmup.prediction_log("xlnet", name, inputs)
        for name, inputs in requests.items()
    ]
