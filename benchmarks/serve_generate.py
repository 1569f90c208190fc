"""Generation with cached keys and values against generation without.

    python -m benchmarks.serve_generate --new_tokens=256

One process, random weights of the given size, greedy; both ways are traced
before they are timed. Prints one JSON object; the exit status is 1 when the
tokens differ.
"""

import json
import sys
import time

import numpy as np
from absl import flags

from flags import app

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_integer("new_tokens", 256, "Pieces to generate.", 1)
    flags.DEFINE_integer("prompt_tokens", 512, "Pieces of the prompt.", 1)
    flags.DEFINE_integer("samples", 1, "Continuations at the same time.", 1)
    flags.DEFINE_integer("bench_layers", 3, "Layers of the model.", 1)
    flags.DEFINE_integer("bench_width", 768, "Width D, in heads of 64.", 64)


def main() -> None:
    """The command."""
    import tensorflow as tf

    from modeling import PretrainingModel, XLNetConfig
    from serving.generation.decoder import Generator
    from serving.generation.options import SamplingOptions

    tf.keras.utils.set_random_seed(0)
    heads = FLAGS.bench_width // 64
    config = XLNetConfig(
        vocab_size=32000,
        d_model=FLAGS.bench_width,
        n_layer=FLAGS.bench_layers,
        n_head=heads,
        d_head=64,
        d_inner=4 * FLAGS.bench_width,
    )
    generator = Generator(
        PretrainingModel(config), np.array([0, 7]), eod=7, pad=5
    )
    prompt = np.arange(100, 100 + FLAGS.prompt_tokens, dtype=np.int32)
    report, tokens = {}, {}
    for name, cached in (("cached", True), ("without", False)):
        options = SamplingOptions(
            max_new_tokens=FLAGS.new_tokens,
            num_samples=FLAGS.samples,
            temperature=0.0,
            use_cache=cached,
        )
        trace = options
        if not cached:  # two lengths make the one trace for all lengths
            trace = SamplingOptions(
                max_new_tokens=3,
                num_samples=FLAGS.samples,
                temperature=0.0,
                use_cache=False,
            )
        generator.generate(prompt, trace)
        start = time.perf_counter()
        tokens[name] = generator.generate(prompt, options).tokens
        report[f"{name}_s"] = round(time.perf_counter() - start, 2)
    report["ratio"] = round(report["without_s"] / report["cached_s"], 1)
    report["equal"] = bool((tokens["cached"] == tokens["without"]).all())
    print(json.dumps(report))
    if not report["equal"]:
        sys.exit(1)


if __name__ == "__main__":
    define()
    app.run(main)
