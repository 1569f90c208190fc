"""Features of a whole split as flat arrays, and batches cut from them.

Rows are stored without padding, so a batch may be of any length: padded to
`max_seq_length`, or to the shortest of a few bucket lengths that fits. Both
give equal results, because padding is masked.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from common.contract import symbols
from data.finetuning.features.pair_features import Sequence1D


@dataclasses.dataclass(frozen=True)
class FeatureTable:
    """N examples of C rows each (C > 1 for multiple choice)."""

    token_ids: np.ndarray  # int32, all rows one after the other
    segment_ids: np.ndarray  # uint8, likewise
    # int64 `[N * C + 1]`, row r is `row_splits[r : r + 2]`
    row_splits: np.ndarray
    # further arrays with first dimension N, e.g. `label_ids`
    columns: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # arrays as long as `token_ids`, a value per token, which batches pad with
    # -1
    token_columns: dict[str, np.ndarray] = dataclasses.field(
        default_factory=dict
    )
    num_options: int = 0  # C, or 0 when batches have no option dimension
    pad_left: bool = True
    pad_segment: int = symbols.SEGMENT_PAD

    @property
    def num_rows(self) -> int:
        """Rows: N, or N * C with options."""
        return len(self.row_splits) - 1

    @property
    def num_examples(self) -> int:
        """N."""
        return self.num_rows // max(1, self.num_options)

    def lengths(self) -> np.ndarray:
        """Tokens of each example's longest row, int64 `[N]`."""
        rows = np.diff(self.row_splits)
        if self.num_options:
            rows = rows.reshape(-1, self.num_options)
            return rows.max(axis=1) if len(rows) else rows.reshape(0)
        return rows

    def batch(
        self,
        indices: np.ndarray,
        length: int,
        batch_size: int | None = None,
        names: Sequence[str] | None = None,
    ) -> dict[str, np.ndarray]:
        """One batch of the fine-tuning contract (`common.contract.schema`).

        `input_ids, segment_ids, input_mask` int32 `[B, T]` or `[B, C, T]`,
        `example_weight` float32 `[B]`, `example_index` int32 `[B]`, and the
        columns of `names` (None = all). `indices` are int `[n]`, n <= B;
        surplus rows repeat the last example with weight 0 and index -1. T is at
        least the longest of them.
        """
        indices = np.asarray(indices, np.int64)
        size = batch_size or len(indices)
        surplus = size - len(indices)
        if surplus < 0 or not len(indices):
            raise ValueError(
                f"`indices` must number 1 to {size}, received {len(indices)}"
            )
        padded = np.concatenate([indices, np.repeat(indices[-1:], surplus)])
        wanted = self.columns | self.token_columns if names is None else names
        result = self._token_arrays(padded, length, wanted)
        weight = np.ones(size, np.float32)  # [B]
        weight[len(indices) :] = 0.0
        index = padded.astype(np.int32)  # [B]
        index[len(indices) :] = -1
        result |= {"example_weight": weight, "example_index": index}
        for name in wanted:
            if name in self.columns:
                result[name] = self.columns[name][padded]
        return result

    def _token_arrays(
        self, examples: np.ndarray, length: int, names: Sequence[str]
    ) -> dict[str, np.ndarray]:
        rows = examples
        if self.num_options:
            options = np.arange(self.num_options)
            rows = (examples[:, None] * self.num_options + options).reshape(-1)
        input_ids = np.zeros((len(rows), length), np.int32)
        segment_ids = np.full((len(rows), length), self.pad_segment, np.int32)
        input_mask = np.zeros((len(rows), length), np.int32)
        further = {
            name: np.full((len(rows), length), -1, value.dtype)
            for name, value in self.token_columns.items()
            if name in names
        }
        for at, row in enumerate(rows):
            start, end = self.row_splits[row : row + 2]
            size = end - start
            if size > length:
                raise ValueError(
                    f"`length` must be at least {size}, received {length}"
                )
            columns = (
                slice(length - size, length) if self.pad_left else slice(size)
            )
            input_ids[at, columns] = self.token_ids[start:end]
            segment_ids[at, columns] = self.segment_ids[start:end]
            input_mask[at, columns] = 1
            for name, value in further.items():
                value[at, columns] = self.token_columns[name][start:end]
        arrays = further | {
            "input_ids": input_ids,
            "segment_ids": segment_ids,
            "input_mask": input_mask,
        }
        if self.num_options:
            shape = (len(examples), self.num_options, length)
            arrays = {k: v.reshape(shape) for k, v in arrays.items()}
        return arrays  # [B, T] or [B, C, T]


def from_sequences(
    sequences: Sequence[Sequence1D],
    columns: dict[str, np.ndarray] | None = None,
    **kwargs,
) -> FeatureTable:
    """A table of unpadded rows; keywords as in `FeatureTable`."""
    lengths = [len(s.ids) for s in sequences]
    return FeatureTable(
        token_ids=_flat([s.ids for s in sequences], np.int32),
        segment_ids=_flat([s.segments for s in sequences], np.uint8),
        row_splits=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        columns=columns or {},
        **kwargs,
    )


_SCALARS = ("num_options", "pad_left", "pad_segment")


def to_arrays(table: FeatureTable) -> dict[str, np.ndarray]:
    """The table as named arrays, for `finetune_cache`."""
    arrays = {
        "token_ids": table.token_ids,
        "segment_ids": table.segment_ids,
        "row_splits": table.row_splits,
        "scalars": np.array([int(getattr(table, n)) for n in _SCALARS]),
    }
    for name, column in table.columns.items():
        arrays[f"column:{name}"] = column
    for name, column in table.token_columns.items():
        arrays[f"token:{name}"] = column
    return arrays


def from_arrays(arrays: dict[str, np.ndarray]) -> FeatureTable:
    """The opposite of `to_arrays`."""
    num_options, pad_left, pad_segment = arrays["scalars"].tolist()
    return FeatureTable(
        arrays["token_ids"],
        arrays["segment_ids"],
        arrays["row_splits"],
        with_prefix(arrays, "column:"),
        with_prefix(arrays, "token:"),
        num_options,
        bool(pad_left),
        pad_segment,
    )


def with_prefix(arrays: dict, prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, under what is left of them."""
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _flat(parts: Sequence[Sequence[int]], dtype) -> np.ndarray:
    total = sum(map(len, parts))
    return np.fromiter((i for p in parts for i in p), dtype, total)


def balanced_weights(table: FeatureTable, count: int) -> tuple[float, ...]:
    """n / (Y n_y) of each of the Y classes, so that all weigh alike.

    A class without an example has 1.
    """
    arrays = table.columns | table.token_columns
    labels = arrays["label_ids"]
    seen = np.bincount(labels[labels >= 0], minlength=count)
    weights = seen.sum() / (count * np.maximum(seen, 1))
    return tuple(np.where(seen > 0, weights, 1.0).tolist())
