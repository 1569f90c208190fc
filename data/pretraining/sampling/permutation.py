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


def draw_ranks(
    ordered: np.ndarray,
    reuse_len: int,
    rng: np.random.Generator,
    perm_size: int = 0,
) -> np.ndarray:
    """Draws an order for each segment.

    Args:
      ordered: bool [n, T], positions with a place in the order.
      perm_size: shuffle inside chunks of so many positions, chunks in order;
        0 = the whole part.

    Returns:
      int16 [n, T].
    """
    n, seq_len = ordered.shape
    ranks = np.full((n, seq_len), reuse_len, np.int16)
    ranks[:, :reuse_len] = -1
    flat = np.flatnonzero(ordered)
    row, position = flat // seq_len, flat % seq_len
    counts = np.bincount(row, minlength=n)
    starts = np.cumsum(counts) - counts
    second = position >= reuse_len
    chunk = second * seq_len
    if perm_size:
        inside = position - reuse_len * second
        chunk = chunk + inside // perm_size
    width = int(counts.max(initial=0))
    if not width:
        return ranks
    # One row of sort keys per segment: part, chunk, then chance.
    keys = np.full((n, width), np.inf)
    slot = np.arange(len(flat)) - np.repeat(starts, counts)
    keys[row, slot] = chunk + rng.random(len(flat))
    order = np.argsort(keys, axis=1)
    index = np.arange(len(flat)) - np.repeat(starts, counts)
    which = starts[row] + order[row, index]  # the place-th in the order
    in_reuse = np.bincount(row, ~second, n).astype(np.int64)
    in_reuse = np.repeat(in_reuse, counts)
    rank = np.where(index < in_reuse, index, index - in_reuse + reuse_len + 1)
    ranks.reshape(-1)[flat[which]] = rank
    return ranks


def perm_mask(ranks: np.ndarray, is_target: np.ndarray) -> np.ndarray:
    """The masks that ranks int [n, T] stand for, with targets bool [n, T].

    Returns:
      bool [n, T, T], true = row i may not attend to column j.
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
    row = flat // seq_len
    counts = np.bincount(row, minlength=n)
    slot = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    positions = np.zeros((n, num_predict), np.int32)
    positions[row, slot] = flat % seq_len
    return positions, counts
