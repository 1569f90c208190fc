"""Command: tokens per second of the serving decoder on a random model.

    python -m benchmarks.compare.generation 3 64

Layers and new tokens; base width, a prompt of 128 pieces. With cached keys and
values, and by running the whole text again for each token. Prints one JSON
line; tracing is not counted.
"""

import argparse
import json
import time

import numpy as np

from benchmarks.systems.ours import config
from benchmarks.systems.workloads import Workload
from modeling import PretrainingModel
from serving.generation.decoder import Generator
from serving.generation.options import SamplingOptions

PROMPT = 128


def main() -> None:
    """Generates, times, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layers", type=int)
    parser.add_argument("tokens", type=int)
    given = parser.parse_args()
    layers, tokens = given.layers, given.tokens
    model = PretrainingModel(config(Workload("inference", layers=layers)))
    # No `<eod>` before the last token: it is banned.
    generator = Generator(model, np.array([7]), eod=7, pad=5)
    prompt = np.random.default_rng(1).integers(9, 32000, [PROMPT])
    measured = {"layers": layers, "new_tokens": tokens, "prompt": PROMPT}
    for name, cached in (("cached", True), ("recomputed", False)):
        options = SamplingOptions(
            max_new_tokens=tokens, temperature=0.0, use_cache=cached
        )
        prompt = prompt.astype(np.int32)
        generator.generate(prompt, options)
        start = time.perf_counter()
        generator.generate(prompt, options)
        measured[f"{name}_tokens_per_s"] = tokens / (
            time.perf_counter() - start
        )
    measured["speed_up"] = (
        measured["cached_tokens_per_s"] / measured["recomputed_tokens_per_s"]
    )
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
