"""Seconds per predicted token: memory against a sliding window.

    python -m benchmarks.lm_eval_speed --output_dir=OUT/eval_speed

Table 7 of Transformer-XL. A model without memory that shall see A tokens before
each prediction computes a window of A tokens for one of them; with memory a
segment of T tokens reads M = A kept inputs, and all T are predicted. Sizes are
equal, weights random, the systems take turns, and a system's time is the median
of its turns. The windows are also timed --rows at a time, as one would run them.
The window's softmax is that of its last position alone.

Letters: A attention length, T segment, B rows, M memory.
"""

import os
import time

import numpy as np
from absl import flags

from common import files
from flags import app, flag_values

FLAGS = flags.FLAGS
# The paper's, of one GPU: attention length -> how many times slower.
PAPER = {800: 363, 1800: 773, 2800: 1409, 3800: 1874}
TITLES = (
    "attention length",
    "memory, s per token",
    "window, s per token",
    "windows together, s per token",
    "times slower",
    "of the length",
    "together",
    "of the length",
    "the paper's",
)


def _config(sizes: dict, length: int, memory: bool):
    from modeling.encoders.transformer_xl.config import TransformerXLConfig

    return TransformerXLConfig(
        **sizes,
        d_head=sizes["d_model"] // sizes["n_head"],
        d_inner=4 * sizes["d_model"],
        dropout=0.0,
        encoding="relative" if memory else "per_layer",
        max_positions=length,
        mem_len=length if memory else 0,
        same_length=memory,
    )


def with_memory(sizes: dict, length: int, segment: int):
    """(call that predicts T tokens, T): one segment behind A kept inputs."""
    import tensorflow as tf

    from modeling.heads.causal_lm import CausalLanguageModel

    config = _config(sizes, length, memory=True)
    model = CausalLanguageModel(config)
    shape = [1, length, config.d_model]
    memory = tuple(
        tf.random.stateless_normal(shape, [i, 1]) for i in range(config.n_layer)
    )
    ids = _ids(sizes, 1, segment + 1)

    @tf.function(autograph=False)
    def run():
        output = model(ids[:, :-1], memory=memory)
        losses = model.token_losses(output.sequence_output, ids[:, 1:])
        # What a next segment would read is made, too.
        return losses, output.new_memory

    return run, segment


def with_windows(sizes: dict, length: int, rows: int):
    """(call that predicts B tokens, B): B windows of A tokens."""
    import tensorflow as tf

    from modeling.heads.causal_lm import CausalLanguageModel

    model = CausalLanguageModel(_config(sizes, length, memory=False))
    ids = _ids(sizes, rows, length + 1)

    @tf.function(autograph=False)
    def run():
        hidden = model(ids[:, :-1]).sequence_output[:, -1:]
        return model.token_losses(hidden, ids[:, -1:])

    return run, rows


def _ids(sizes: dict, rows: int, count: int):
    import tensorflow as tf

    return tf.random.stateless_uniform(
        [rows, count], [rows, count], 0, sizes["vocab_size"], tf.int32
    )


def seconds_per_token(systems: list, turns: int) -> list[float]:
    """Medians over turns in which each system runs once.

    Args:
      systems: (call, tokens that it predicts) of each.
      turns: how many.
    """
    import tensorflow as tf

    times = [[] for _ in systems]
    for turn in range(turns + 1):
        for (run, tokens), system_times in zip(systems, times, strict=True):
            began = time.perf_counter()
            for x in tf.nest.flatten(run()):
                x.numpy()
            if turn:  # the first one traces
                system_times.append((time.perf_counter() - began) / tokens)
    return [float(np.median(system_times)) for system_times in times]


def row(length: int, times: list[float]) -> list[str]:
    """A line of the table."""
    memory, window, together = times
    cells = [str(length), *(f"{t:.3g}" for t in times)]
    for slower in (window / memory, together / memory):
        cells += [f"{slower:.0f}", f"{slower / length:.2f}"]
    return [*cells, str(PAPER.get(length, ""))]


def main() -> None:
    """Times every length, prints and keeps the table."""
    lengths = flag_values.whole_numbers("lengths", FLAGS.lengths)
    names = ("n_layer", "d_model", "n_head", "vocab_size")
    sizes = {name: FLAGS[name].value for name in names}
    print(
        f"{FLAGS.n_layer} layers of {FLAGS.d_model}, segments of "
        f"{FLAGS.segment} with memory, {FLAGS.rows} windows together, "
        f"{FLAGS.turns} turns"
    )
    lines = ["\t".join(TITLES)]
    print(lines[0])
    for length in lengths:
        systems = [
            with_memory(sizes, length, FLAGS.segment),
            with_windows(sizes, length, 1),
            with_windows(sizes, length, FLAGS.rows),
        ]
        seconds = seconds_per_token(systems, FLAGS.turns)
        lines.append("\t".join(row(length, seconds)))
        print(lines[-1], flush=True)
    if FLAGS.output_dir:
        path = os.path.join(FLAGS.output_dir, "lm_eval_speed.tsv")
        files.write_text(path, "\n".join(lines) + "\n")
        print(f"wrote {path}")


if __name__ == "__main__":
    flags.DEFINE_list("lengths", [str(a) for a in PAPER], "A, of each line.")
    flags.DEFINE_integer("segment", 512, "T with memory.", 1)
    flags.DEFINE_integer("rows", 4, "Windows at a time.", 1)
    flags.DEFINE_integer("turns", 5, "Of each system.", 1)
    flags.DEFINE_integer("n_layer", 4, "L.", 1)
    flags.DEFINE_integer("d_model", 128, "D.", 2)
    flags.DEFINE_integer("n_head", 4, "N.", 1)
    flags.DEFINE_integer("vocab_size", 1000, "V.", 2)
    flags.DEFINE_string("output_dir", "", "Takes the table.")
    app.run(main)
