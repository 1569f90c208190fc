"""A model of the server that only counts."""

import threading

import numpy as np
import tensorflow as tf

PREDICT = "/v1/models/xlnet:predict"


SPECS = {
    "serving_default": {
        "meaning": "text in",
        "inputs": {"text": {"dtype": "string", "shape": [None]}},
        "outputs": {},
    },
    "ids": {
        "meaning": "ids in",
        "inputs": {"input_ids": {"dtype": "int32", "shape": [None, None]}},
        "outputs": {},
    },
}


class FakeModel:
    """Answers with the length of each text; notes the batches it saw."""

    version = "7"
    variable_shapes = {}
    signature_defs = {}
    description = {"labels": ["short", "long"], "signatures": SPECS}

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, inputs, signature, stop=None):
        self.gate.wait(5)
        if signature == "ids":
            ids = np.asarray(inputs["input_ids"])
            if (ids < 0).any():
                raise tf.errors.InvalidArgumentError(None, None, "/secret/path")
            return {"total": ids.sum(1)}
        texts = inputs["text"]
        self.batches.append(len(texts))
        if "crash" in texts:
            raise RuntimeError("/secret/path")
        lengths = np.asarray([len(t) for t in texts], np.float32)
        return {
            "length": lengths,
            "probabilities": np.stack([1 / lengths, 1 - 1 / lengths], 1),
            "label": np.asarray([b"long"] * len(texts), object),
        }
