"""Command: tokens per second of a left-to-right model on random weights.

    python -m benchmarks.lm_generation 12 64

Layers and new tokens; the width of enwik8's 12 layers, 512 tokens of memory.
Each token with keys and values in a ring; with the inputs of all layers in
memory (the keys and values are made again); and by running the last 512 tokens
again, as without a memory. The three take turns, a token's median counts.
Prints one JSON line; tracing is not counted.
"""

import argparse
import json
import time

import numpy as np
import tensorflow as tf

from benchmarks.systems.ours import lm_config
from benchmarks.systems.workloads import Workload
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.causal_decoder import CausalGenerator
from serving.generation.options import SamplingOptions

MEMORY, ROUNDS = 512, 3


def ways(model: CausalLanguageModel, prompt: np.ndarray, tokens: int) -> dict:
    """Name -> function that makes so many tokens after the prompt."""
    generator = CausalGenerator(model, np.array([], np.int32))

    def by_generator(use_cache):
        options = SamplingOptions(
            max_new_tokens=tokens, temperature=0.0, use_cache=use_cache
        )
        return lambda: generator.generate(prompt, options).tokens[0]

    @tf.function(autograph=False)
    def next_token(ids):
        hidden = model(ids).sequence_output[:, -1]  # [1, D]
        return tf.argmax(model.log_probs(hidden), -1, tf.int32)  # [1]

    def recompute():
        ids = tf.constant(prompt[np.newaxis])
        for _ in range(tokens):
            ids = tf.concat([ids, next_token(ids[:, -MEMORY:])[None]], 1)
        return ids[0, len(prompt) :].numpy()

    return {
        "ring": by_generator(True),
        "memory": by_generator(False),
        "recomputed": recompute,
    }


def main() -> None:
    """Generates, times, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", type=int)
    parser.add_argument("tokens", type=int)
    given = parser.parse_args()
    layers, tokens = given.layers, given.tokens
    sizes = Workload(
        "language_model",
        layers=layers,
        memory=MEMORY,
        vocab=204,
        width=512,
        heads=8,
        inner=2048,
    )
    model = CausalLanguageModel(lm_config(sizes))
    prompt = np.random.default_rng(1).integers(0, 204, [MEMORY])
    runs = ways(model, prompt.astype(np.int32), tokens)
    for run in runs.values():
        run()
    seconds: dict[str, list] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    measured = {"layers": layers, "new_tokens": tokens, "memory": MEMORY}
    for name, taken in seconds.items():
        measured[f"{name}_tokens_per_s"] = tokens / float(np.median(taken))
    for name in ("memory", "recomputed"):
        ratio = np.median(np.divide(seconds[name], seconds["ring"]))
        measured[f"ring_over_{name}"] = float(ratio)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
