"""Ours: sentence vectors of a released folder, as `serving.embed` makes them."""

import numpy as np

from benchmarks.systems.workloads import Workload


def build(workload: Workload, options: dict):
    """A step that makes the vectors of all texts.

    `workload.batch`: texts of a batch; `options`: folder, texts (a file). The
    step gives the mean of the absolute numbers, equal for equal vectors.
    """
    from serving.generation import sentence_folder
    from serving.generation.embeddings import Embedder
    from serving.generation.language_model import load_encoder
    from serving.generation.options import ModelOptions

    folder = options["folder"]
    encoder, tokenizer = load_encoder(ModelOptions(folder), 0)
    rule = sentence_folder.read(folder)
    embedder = Embedder(encoder, tokenizer)  # its traces stay for all steps
    with open(options["texts"], encoding="utf-8") as f:
        texts = f.read().splitlines()

    def step() -> float:
        vectors = list(embedder.sentences(texts, rule, workload.batch))
        return float(np.abs(vectors).mean())

    return step
