"""Losses of a left-to-right model with exactly c tokens of context.

    python -m studies.language.context_losses --checkpoint=OUT/model \\
        --data_dir=OUT/words --output=OUT/model.npz
    python -m studies.language.effective_context --losses=OUT/model.npz,OUT/other.npz

Appendix C of Transformer-XL. Positions of a split are drawn (--seed); for
every context of the grid the window before a position is read from an empty
memory that holds all of it. With --block=W one window serves W positions that
follow each other: its tokens have c to c + W - 1 tokens of context, and it costs
as much as one. A model whose positions are places in a segment, and that has no
memory, sees its own segment at most: beyond it the losses stay those of its
longest. Equal settings give equal positions, whatever the model.

Letters: B windows at a time, c context, W block, M memory, T segment.
"""

import os

import numpy as np
from absl import flags

from common import files
from common.errors import UserError
from flags import app, flag_values

FLAGS = flags.FLAGS
# Longest segment that a window is read in where any would do.
SEGMENT = 256


def draw_blocks(
    tokens: int, longest: int, block: int, positions: int, seed: int
) -> np.ndarray:
    """First positions of blocks that do not overlap, int64 [blocks], rising.

    Args:
      longest: context that every position must have.
      block: W.
      positions: wanted; rounded up to whole blocks.

    Raises:
      UserError: the split has too few tokens.
    """
    count = -(-positions // block)
    room = (tokens - longest) // block
    if count > room:
        raise UserError(
            f"a split of {tokens} tokens has {max(room, 0) * block} positions "
            f"with {longest} tokens of context; wanted {positions}: take a "
            "smaller --positions or shorter --contexts"
        )
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(room, count, replace=False))
    return longest + chosen * block


class WindowReader:
    """Losses of the last tokens of windows.

    Args:
      model: a `CausalLanguageModel` with all weights.
      segment: T; windows are read so that the last segment is a whole one.
      whole: the model sees the window whole, through memory; else its last
        segment.
    """

    def __init__(self, model, segment: int, whole: bool):
        import tensorflow as tf

        self.model, self.segment, self.whole = model, segment, whole
        self._run = tf.function(self._losses, autograph=False)

    def losses(self, windows: np.ndarray, block: int) -> np.ndarray:
        """float32 [B, W], of the last W tokens of int32 [B, c + W].

        Raises:
          UserError: a block has more tokens than the segment that is seen.
        """
        if not self.whole:
            if block > self.segment:
                raise UserError(
                    f"--block={block} is longer than the model's segment of "
                    f"{self.segment} tokens; take a smaller one"
                )
            windows = windows[:, -(self.segment + 1) :]
        return self._run(windows)[:, -block:].numpy()

    def _losses(self, windows):
        count = windows.shape[1] - 1
        first = count % self.segment or self.segment
        ends = range(first, count + 1, self.segment)
        memory, hidden, start = None, None, 0
        for end in ends:
            output = self.model(windows[:, start:end], memory=memory)
            hidden, memory = output.sequence_output, output.new_memory
            last, start = windows[:, start + 1 : end + 1], end
        return self.model.token_losses(hidden, last)


def measure(
    reader: WindowReader,
    stream,
    starts: np.ndarray,
    contexts: tuple[int, ...],
    block: int,
    batch_size: int,
) -> np.ndarray:
    """float32 [C, X]: losses of all positions with each context.

    Args:
      stream: `read(start, count)` gives tokens.
      starts: int [blocks], first position of each block.
      contexts: tokens of context of a block's first position.
      block: W; X = blocks * W.
      batch_size: B.
    """
    losses = []
    for context in contexts:
        windows = np.stack(
            [stream.read(int(s) - context, context + block) for s in starts]
        )
        rows = [
            reader.losses(windows[i : i + batch_size], block)
            for i in range(0, len(windows), batch_size)
        ]
        losses.append(np.concatenate(rows).reshape(-1))
        print(
            f"context {context}: {losses[-1].mean():.4f} nats, perplexity "
            f"{np.exp(losses[-1].mean(dtype=np.float64)):.3f}",
            flush=True,
        )
    return np.stack(losses)


def open_reader(data, path: str, longest: int) -> WindowReader:
    """The model of a checkpoint, as `--clamp_len` and `--seq_len` say.

    Args:
      data: `StreamData` that it shall fit.
      path: of the checkpoint or its folder.
      longest: tokens of the longest window.

    Raises:
      UserError: no such checkpoint, another vocabulary, or no known segment.
    """
    from modeling.checkpoints import restore
    from modeling.heads.causal_lm import CausalLanguageModel

    config = restore.find_config(path)
    data.check_model(config.extra, "the model")
    whole = bool(config.mem_len) or not config.bound_to_segment
    segment = FLAGS.seq_len
    if segment is None and config.bound_to_segment:
        segment = config.trained_length
        if segment is None:
            raise UserError(
                f"{path}: positions are places in a segment whose length is "
                "not known; give --seq_len, T of the training"
            )
    changes = {"same_length": False, "memory_start": "hidden"}
    if FLAGS.clamp_len is not None:
        changes["clamp_len"] = FLAGS.clamp_len
    model = CausalLanguageModel(
        config.replace(mem_len=longest if whole else 0, **changes)
    )
    restore.restore(model, path, require="all")
    return WindowReader(model, segment or SEGMENT, whole)


def main() -> None:
    """Measures and writes the file."""
    from data.language_modeling import run_data
    from data.language_modeling.stream import TokenStream

    contexts = flag_values.whole_numbers("contexts", FLAGS.contexts)
    if (
        len(contexts) < 2
        or min(contexts) < 1
        or sorted(set(contexts)) != list(contexts)
    ):
        raise UserError(
            "--contexts wants two or more rising numbers, received "
            f"{','.join(FLAGS.contexts)}"
        )
    if not FLAGS.output.endswith(".npz"):
        raise UserError(f"--output={FLAGS.output}: wanted NAME.npz")
    files.check_output(FLAGS.output)
    data = run_data.open_data(FLAGS.data_dir)
    stream = TokenStream(data.manifest, FLAGS.split)
    block = FLAGS.block
    starts = draw_blocks(
        len(stream), contexts[-1], block, FLAGS.positions, FLAGS.seed
    )
    reader = open_reader(data, FLAGS.checkpoint, contexts[-1] + block)
    print(
        f"{len(starts) * block} of {len(stream)} tokens of {FLAGS.split}, "
        f"seed {FLAGS.seed}, in blocks of {block}: contexts c to "
        f"c + {block - 1}; segments of {reader.segment}"
        + ("" if reader.whole else ", nothing before them is seen"),
        flush=True,
    )
    losses = measure(reader, stream, starts, contexts, block, FLAGS.batch_size)
    # Of two splits of one length the positions are the same.
    tokens = np.concatenate([stream.read(int(s), block) for s in starts])
    name = FLAGS.name or os.path.basename(os.path.splitext(FLAGS.output)[0])
    with files.atomic_open(FLAGS.output, "wb") as f:
        np.savez(
            f,
            losses=losses,
            contexts=np.array(contexts),
            positions=(starts[:, None] + np.arange(block)).reshape(-1),
            tokens=tokens,
            name=np.array(name),
            block=np.array(block),
        )
    print(f"wrote {FLAGS.output}")


if __name__ == "__main__":
    flags.DEFINE_string("checkpoint", None, "The model.", required=True)
    flags.DEFINE_string("data_dir", None, "Its streams.", required=True)
    flags.DEFINE_string("output", None, "NAME.npz to write.", required=True)
    flags.DEFINE_string("name", "", "Of the model. Default: that of the file.")
    flags.DEFINE_string("split", "valid", "Whose tokens are predicted.")
    flags.DEFINE_list(
        "contexts", [str(c) for c in range(100, 1001, 100)], "The grid."
    )
    flags.DEFINE_integer("positions", 2000, "Tokens that are predicted.", 1)
    flags.DEFINE_integer("block", 1, "W, positions of a window.", 1)
    flags.DEFINE_integer("batch_size", 8, "B.", 1)
    flags.DEFINE_integer(
        "seq_len",
        None,
        "T that windows are read in. Default: any, or the model's own where "
        "positions are places in it.",
        1,
    )
    flags.DEFINE_integer("clamp_len", None, "Default: the model's.")
    flags.DEFINE_integer("seed", 0, "Of the positions.", 0)
    app.run(main)
