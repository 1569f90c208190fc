"""Query and document in one row, `query SEP document SEP CLS`.

Encoders that want CLS first get `CLS query SEP document SEP`.

A document that is longer than its room is read in windows, `stride` pieces
from one start to the next, of which the first `max_passages` count.
"""

from collections.abc import Sequence

import numpy as np

from common.contract import symbols
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.features.table import FeatureTable


def windows(
    length: int, room: int, stride: int, max_passages: int
) -> list[tuple[int, int]]:
    """(begin, end) of a document's windows of `room` > 0 pieces; at least one.

    The stride lies between their starts; 0 = the first window alone.
    """
    if not stride:
        return [(0, min(room, length))]
    step = min(room, stride)
    count = 1 + -(-max(length - room, 0) // step)
    return [
        (i * step, min(i * step + room, length))
        for i in range(min(count, max_passages))
    ]


def passages(
    query: Sequence[int],
    document: Sequence[int],
    max_length: int,
    stride: int,
    max_passages: int,
    ids: symbols.SymbolIds,
    layout: str = symbols.CLS_LAST,
) -> list[Sequence1D]:
    """The rows of one pair; the query is cut already."""
    room = max_length - len(query) - symbols.row_symbols(layout)
    return [
        pair_features.join_segments(
            [query, document[begin:end]], max_length, ids, layout
        )
        for begin, end in windows(len(document), room, stride, max_passages)
    ]


def lists(
    pairs: np.ndarray, grades: np.ndarray, size: int, seed: int
) -> np.ndarray:
    """Lists of `size` candidates to train on, int64 [pairs, size].

    The first two are a pair (better, worse) of one query; the others are drawn
    from those that grade lower than its better one, without repeating where
    there are enough, and not from those of grade -1.
    """
    candidates = np.zeros((len(pairs), size), np.int64)
    candidates[:, :2] = pairs
    for row, (better, worse) in enumerate(pairs.tolist()):
        if size == 2:
            break
        below = np.flatnonzero((grades >= 0) & (grades < grades[better]))
        others = below[below != worse]
        pool = others if len(others) else below
        rng = np.random.default_rng((seed, row))
        candidates[row, 2:] = rng.choice(
            pool, size - 2, replace=len(pool) < size - 2
        )
    return candidates


def training_table(
    examples: Sequence[Sequence[Sequence1D]],
    grades: Sequence[np.ndarray],
    layout: str = symbols.CLS_LAST,
) -> FeatureTable:
    """Lists of C rows with their grades [C] as labels."""
    labels = np.array(grades, np.float32)  # [N, C]
    return finetune_table.from_sequences(
        [row for example in examples for row in example],
        {"label_ids": labels},
        num_options=labels.shape[1],
        **pair_features.padding(layout),
    )
