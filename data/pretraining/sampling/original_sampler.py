"""The released code's sampling, exactly, for `--sampler=original`.

Kept for parity and ablations; what differs from
`data.pretraining.sampling.balanced_spans`: the context excludes the span, a span
of n is n tokens (the end test looks at the span's first token), a span that
would touch the end stops the sampling, the rest is topped up with single tokens
(SEP and CLS among them, later discarded), and all chunks of a part share one
permutation.
"""

import numpy as np

from common.contract.symbols import SymbolIds
from data.pretraining.options import BuildOptions
from data.pretraining.sampling import record_arrays
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.segments import Segments
from data.pretraining.sampling.token_stream import Stream


def sample_mask(
    starts: np.ndarray,
    rng: np.random.RandomState,
    goal: int | None,
    alpha: int = 6,
    beta: int = 1,
    max_gram: int = 5,
    reverse: bool = False,
) -> np.ndarray:
    """Draws the masked tokens of one part, bool [n].

    Args:
      starts: bool [n], tokens whose piece begins a word.
      rng: advanced as the original advances `np.random`.
      goal: masked tokens wanted; None = as many as come.
      alpha, beta: an n-gram has a context of n * alpha // beta tokens beside.
      reverse: the part is backward: sample in the order of the text.
    """
    n = len(starts)
    masked = np.zeros(n, bool)
    lengths = np.arange(1, max_gram + 1, dtype=np.int64)
    weights = 1.0 / lengths
    weights /= weights.sum(keepdims=True)
    if reverse:
        starts = starts[::-1]
    count, position = 0, 0
    while position < n and (goal is None or count < goal):
        gram = rng.choice(lengths, p=weights)
        if goal is not None:
            gram = min(gram, goal - count)
        context = gram * alpha // beta
        left = rng.choice(context)
        first = position + left
        while first < n and not starts[first]:
            first += 1
        if first >= n:
            break
        end = first + gram  # `starts[first]` counts every token as a word
        if end >= n:
            break
        masked[first:end] = True
        count += end - first
        position = end + context - left
    if goal is not None and goal > n:
        raise ValueError(f"cannot mask {goal} of {n} tokens")
    while goal is not None and count < goal:
        i = rng.randint(n)
        if not masked[i]:
            masked[i] = True
            count += 1
    return masked[::-1] if reverse else masked


def permuted_index(length: int, perm: np.ndarray) -> np.ndarray:
    """int64 [length]: the order of a part whose chunks share `perm`."""
    chunks = np.arange(length).reshape(-1, len(perm))
    return chunks[:, perm].reshape(-1)


def local_perm(
    ids: np.ndarray,
    masked: np.ndarray,
    perm: np.ndarray,
    symbols: SymbolIds,
) -> dict[str, np.ndarray]:
    """Order, targets and mask of ids int [n], masked bool [n], as the original.

    `index` int64 [n], `is_target` bool [n], `perm_mask` bool [n, n]; `perm`
    int [perm_size] is the permutation of every chunk.
    """
    index = permuted_index(len(ids), perm)
    functional = np.isin(ids, symbols.functional())
    index = np.where(functional | masked, index, -1)
    is_target = masked & ~functional
    last_visible = np.where(is_target, index, index + 1)
    hidden = (last_visible[:, None] <= index[None]) & (masked | functional)
    return {"index": index, "is_target": is_target, "perm_mask": hidden}


def make_arrays(
    stream: Stream,
    words: tuple[np.ndarray, bool],
    segments: Segments,
    options: BuildOptions,
    symbols: SymbolIds,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """As `record_arrays.make_arrays`, with the original's draws.

    `words` holds the pieces that begin a word, bool [V], and whether the
    stream is backward.
    """
    table, reverse = words
    seq_len, reuse_len = options.seq_len, options.reuse_len
    layout = segments_lib.layout(
        segments.reuse, segments.a_len, segments.b_len, seq_len, reuse_len
    )
    ids = segments_lib.gather(stream, segments, seq_len, reuse_len, symbols)
    state = np.random.RandomState(int(rng.integers(1 << 32)))
    is_target = np.zeros(ids.shape, bool)
    ranks = np.full(ids.shape, reuse_len, np.int16)
    ranks[:, :reuse_len] = -1
    second = options.num_predict // 2
    parts = ((0, reuse_len, options.num_predict - second),)
    parts += ((reuse_len, seq_len, second),)
    size = options.perm_size or reuse_len
    for i in range(len(ids)):
        for start, end, goal in parts:
            real = int(layout.input_mask[i, start:end].sum())
            if not real:
                continue
            masked = np.zeros(end - start, bool)
            masked[:real] = sample_mask(
                table[ids[i, start : start + real]],
                state,
                min(goal, real),
                options.mask_alpha,
                options.mask_beta,
                options.max_span,
                reverse,
            )
            drawn = local_perm(
                ids[i, start:end], masked, state.permutation(size), symbols
            )
            ordered = drawn["index"] >= 0
            offset = 0 if start < reuse_len else reuse_len + 1
            ranks[i, start:end][ordered] = drawn["index"][ordered] + offset
            is_target[i, start:end] = drawn["is_target"]
    return record_arrays.pack(
        ids, is_target, ranks, segments, options.num_predict
    )
