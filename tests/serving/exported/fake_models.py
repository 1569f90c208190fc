"""A SavedModel that counts its calls, and a prediction with it."""

import json

import numpy as np

from serving.options import PredictOptions


class FakeModel:
    """Gives each text's length."""

    version_dir = "model/1"
    description = {"labels": ["a", "b"]}

    def __init__(self, *names):
        self.names = names or ("text",)
        self.calls = []

    def inputs(self, signature="serving_default"):
        return {
            n: {
                "dtype": "string",
                "shape": [None, None] if n == "options" else [None],
            }
            for n in self.names
        }

    def __call__(self, inputs):
        first = inputs[self.names[0]]
        self.calls.append(len(first))
        return {"length": np.array([len(t) for t in first], np.int32)}


def options(tmp_path, name="in.txt", **overrides) -> PredictOptions:
    return PredictOptions(
        **{
            "saved_model_dir": "model",
            "input_file": str(tmp_path / name),
            "output_file": str(tmp_path / "out.jsonl"),
            "batch_size": 3,
        }
        | overrides
    )


def answers(tmp_path, name="out.jsonl"):
    lines = (tmp_path / name).read_text().splitlines()
    return [json.loads(line) for line in lines]
