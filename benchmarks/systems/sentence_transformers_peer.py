"""The program that such folders come from: sentence-transformers.

Runs in an environment of `requirements-bench.txt`; imports no TensorFlow.
"""

import numpy as np

from benchmarks.systems import torch_setup
from benchmarks.systems.workloads import Workload, threads


def build(workload: Workload, options: dict):
    """A step as that of `benchmarks.systems.sentences`."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads())
    model = SentenceTransformer(options["folder"], device="cpu")
    with open(options["texts"], encoding="utf-8") as f:
        texts = f.read().splitlines()

    def step() -> float:
        vectors = model.encode(
            texts, batch_size=workload.batch, show_progress_bar=False
        )
        return float(np.abs(vectors).mean())

    return step


def about() -> dict:
    """Versions and settings."""
    import sentence_transformers

    return torch_setup.about() | {
        "sentence_transformers": sentence_transformers.__version__
    }
