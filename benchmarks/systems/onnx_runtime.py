"""Hugging Face's classifiers under ONNX Runtime: float32, or weights in int8.

Another process exports the graph, so that neither PyTorch nor the exporter is
in the memory that is measured. Runs in an environment of
`requirements-bench.txt`; imports no TensorFlow.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks.systems import workloads
from benchmarks.systems.workloads import Workload


def build(workload: Workload, options: dict):
    """A step function of an inference; `options`: int8."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = workloads.threads()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        spec = json.dumps(dataclasses.asdict(workload) | {"lengths": ""})
        kind = "int8" if options.get("int8") else "float32"
        subprocess.run(
            [sys.executable, "-m", __name__, spec, path, kind], check=True
        )
        session = onnxruntime.InferenceSession(
            path, settings, providers=["CPUExecutionProvider"]
        )
    batch = workloads.finetune_batch(workload)
    inputs = {
        name: batch[field].astype(np.int64) for name, field in _fields(workload)
    }
    labels = batch["label_ids"]

    def step() -> float:
        (logits,) = session.run(None, inputs)
        logits = logits - logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return float(np.mean(np.log(np.exp(logits).sum(-1)) - chosen))

    return step


def about() -> dict:
    """The version."""
    import onnxruntime

    return {
        "onnxruntime": onnxruntime.__version__,
        "threads": workloads.threads(),
    }


def _fields(w: Workload) -> list[tuple[str, str]]:
    """(input of the graph, field of the batch)."""
    fields = [("input_ids", "input_ids"), ("attention_mask", "input_mask")]
    if w.model_type != "modernbert":  # which knows no segments
        fields.append(("token_type_ids", "segment_ids"))
    return fields


def export(workload: Workload, path: str, int8: bool) -> None:
    """Writes the graph of the classifier."""
    import torch

    from benchmarks.systems.torch import classifier

    torch.manual_seed(workload.seed)
    model = classifier(workload).eval()
    names = [name for name, _ in _fields(workload)]

    class Logits(torch.nn.Module):
        """By position and without a dictionary, as exporters want it."""

        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *tensors):
            """The logits alone."""
            return self.model(**dict(zip(names, tensors, strict=True))).logits

    batch = workloads.finetune_batch(workload)
    tensors = tuple(
        torch.from_numpy(batch[field].astype(np.int64))
        for _, field in _fields(workload)
    )
    plain = path + ".float32" if int8 else path
    with torch.inference_mode():
        torch.onnx.export(
            Logits(),
            tensors,
            plain,
            input_names=names,
            output_names=["logits"],
            dynamo=False,
        )
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, path, weight_type=QuantType.QInt8)


def main() -> None:
    """What `build` starts in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", type=json.loads, help="its fields, JSON")
    parser.add_argument("path", help="receives the graph")
    parser.add_argument("kind", choices=("float32", "int8"))
    given = parser.parse_args()
    export(Workload(**given.workload), given.path, given.kind == "int8")


if __name__ == "__main__":
    main()
