"""Factorization orders as ranks, and the masks they stand for.

Token i may not see j iff `rank_i + [i is no target] <= rank_j`.

    reuse part:  context tokens -1, ordered tokens 0..reuse_len-1
    second part: context tokens reuse_len, ordered tokens reuse_len+1 and up

So context tokens see each other and nothing that is ordered in their part, a
target sees what comes before it in the order, and the reuse part never sees the
second part. Ordered are the targets and, as in the original, SEP and CLS;
each part is shuffled on its own (XLNet paper sections 2.2 and 2.3).
"""

import numpy as np


def row_counts(flat: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """int64 [rows]: how many ascending places, flat in `shape`, each has."""
    rows, columns = shape
    return np.diff(np.searchsorted(flat, np.arange(rows + 1) * columns))


def draw_ranks(
    ordered: np.ndarray,
    reuse_len: int,
    rng: np.random.Generator,
    perm_size: int = 0,
) -> np.ndarray:
    """Draws an order for each segment, int16 [n, T].

    Args:
      ordered: bool [n, T], positions with a place in the order.
      perm_size: shuffle inside chunks of so many positions, chunks in order;
        0 = the whole part.
    """
    n, seq_len = ordered.shape
    ranks = np.full((n, seq_len), reuse_len, np.int16)
    ranks[:, :reuse_len] = -1
    flat = np.flatnonzero(ordered)
    counts = row_counts(flat, ordered.shape)
    width = int(counts.max(initial=0))
    if not width:
        return ranks
    line = np.arange(n) * seq_len
    starts = np.cumsum(counts) - counts
    in_reuse = np.searchsorted(flat, line + reuse_len) - starts
    starts, in_reuse = (np.repeat(x, counts) for x in (starts, in_reuse))
    index = np.arange(len(flat)) - starts
    second = index >= in_reuse
    chunk = second * seq_len
    if perm_size:
        inside = flat - np.repeat(line, counts) - reuse_len * second
        chunk = chunk + inside // perm_size
    # One row of sort keys per segment: part, chunk, then chance.
    keys = np.full((n, width), np.inf)
    used = np.arange(width) < counts[:, None]
    keys[used] = chunk + rng.random(len(flat))
    which = starts + np.argsort(keys, axis=1)[used]  # the place-th in the order
    rank = np.where(second, index - in_reuse + reuse_len + 1, index)
    ranks.reshape(-1)[flat[which]] = rank
    return ranks


def perm_mask(ranks: np.ndarray, is_target: np.ndarray) -> np.ndarray:
    """bool [n, T, T] of ranks int [n, T] with targets bool [n, T].

    True = row i may not attend to column j.
    """
    limit = ranks.astype(np.int32) + ~is_target
    return limit[:, :, None] <= ranks[:, None, :]


def target_mapping(
    target_positions: np.ndarray, num_targets: np.ndarray, seq_len: int
) -> np.ndarray:
    """bool [n, P, T]: one-hot rows of positions int [n, P], zero where unused.

    Of row i the first `num_targets` int [n] slots are used.
    """
    slots = target_positions.shape[1]
    used = np.arange(slots)[None] < np.asarray(num_targets)[:, None]
    hot = target_positions[:, :, None] == np.arange(seq_len)[None, None]
    return hot & used[:, :, None]


def positions_of(
    is_target: np.ndarray, num_predict: int
) -> tuple[np.ndarray, np.ndarray]:
    """Slots int32 [n, P] of targets bool [n, T], at most P in each row.

    They are ascending, zero where unused; int64 [n] says how many are used.
    """
    n, seq_len = is_target.shape
    flat = np.flatnonzero(is_target)
    counts = row_counts(flat, is_target.shape)
    positions = np.zeros((n, num_predict), np.int32)
    used = np.arange(num_predict) < counts[:, None]
    positions[used] = flat - np.repeat(np.arange(n) * seq_len, counts)
    return positions, counts
