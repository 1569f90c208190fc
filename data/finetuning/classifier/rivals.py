"""Rows that compete: the candidates of a question, of a pronoun (L2).

A training example is a pair of rows, the right one first; at the end the best
row of a group is right and the others are not.
"""

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np

from data.finetuning.features.table import FeatureTable

# 1 = the second row of the example is a rival, 0 = it repeats the first.
RIVAL = "rival"


def groups_of(keys: Sequence[Hashable]) -> list[list[int]]:
    """Indices of equal keys, in the order in which these first occur."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def pairs(keys: Sequence[Hashable], right: Sequence[bool]) -> list[tuple]:
    """Every right row with every wrong one of its group.

    Returns:
      (right row, wrong row); (row, row) for each of a group that has no pair.
    """
    row_pairs = []
    for rows in groups_of(keys):
        better = [i for i in rows if right[i]]
        worse = [i for i in rows if not right[i]]
        group_pairs = [(i, j) for i in better for j in worse]
        row_pairs += group_pairs or [(i, i) for i in rows]
    return row_pairs


def paired(table: FeatureTable, chosen: Sequence[tuple]) -> FeatureTable:
    """Examples of two rows each.

    Args:
      chosen: two of its rows for each example.

    Returns:
      Columns of the first row, and `RIVAL` float32 [N].
    """
    first = np.array([pair[0] for pair in chosen], np.int64)  # [N]
    second = np.array([pair[1] for pair in chosen], np.int64)
    rows = np.stack([first, second], 1).reshape(-1)  # [N * 2]
    begins, ends = table.row_splits[:-1][rows], table.row_splits[1:][rows]
    kept = np.concatenate(
        [np.arange(a, b) for a, b in zip(begins, ends, strict=True)]
    )
    columns = {name: value[first] for name, value in table.columns.items()}
    return dataclasses.replace(
        table,
        token_ids=table.token_ids[kept],
        segment_ids=table.segment_ids[kept],
        row_splits=np.concatenate([[0], np.cumsum(ends - begins)]),
        columns=columns | {RIVAL: (first != second).astype(np.float32)},
        token_columns={k: v[kept] for k, v in table.token_columns.items()},
        num_options=2,
    )


def margins(scores: np.ndarray, keys: Sequence[Hashable]) -> np.ndarray:
    """How far a row is above the best other one of its group, [N].

    Above 0 for one row of a group and below 0 for its others: of equal scores
    the first is the best. NaN for a row that is alone.
    """
    scores = np.asarray(scores, np.float64)
    row_margins = np.full(len(scores), np.nan)
    least = np.finfo(np.float64).tiny
    for rows in groups_of(keys):
        if len(rows) < 2:
            continue
        values = scores[rows]
        best = int(np.argmax(values))
        highest, next_highest = values[best], np.max(np.delete(values, best))
        row_margins[rows] = np.minimum(values - highest, -least)
        row_margins[rows[best]] = max(highest - next_highest, least)
    return row_margins
