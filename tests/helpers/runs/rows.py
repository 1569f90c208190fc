"""Rows of a batch, one at a time."""

import numpy as np

from data.finetuning.features import table
from data.finetuning.features.pair_features import Sequence1D


def pad_left(sequence: Sequence1D, length: int) -> tuple[np.ndarray, ...]:
    """Input ids, segment ids and input mask, int32 `[length]` each."""
    batch = table.from_sequences([sequence]).batch(np.arange(1), length)
    names = ("input_ids", "segment_ids", "input_mask")
    return tuple(batch[name][0] for name in names)
