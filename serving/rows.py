"""Batched outputs of a signature -> one JSON object per example."""

from collections.abc import Mapping

import numpy as np

# Outputs of these widths are cut to the row's own count.
_PER_PIECE = ("label_ids", "labels", "piece_starts", "piece_ends", "piece_ids")
_DIGITS = 7  # float32 holds no more


def format_row(
    description: Mapping, outputs: Mapping[str, np.ndarray], row: int
) -> dict:
    """One example's answer, ready for `json.dumps`.

    Probabilities come by class name where the model has names; logits and
    padding are left out.
    """
    labels = description["labels"]
    result = {}
    count = None
    if "num_pieces" in outputs:
        count = int(outputs["num_pieces"][row])
    for name, value in outputs.items():
        if name == "logits":
            continue
        cell = value[row]
        if count is not None and name in _PER_PIECE:
            cell = cell[:count]
        cell = plain(cell)
        if name == "probabilities" and len(labels) == len(cell):
            cell = dict(zip(labels, cell, strict=True))
        result[name] = cell
    return result


def plain(value):
    """Arrays, scalars and byte strings as JSON values."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.floating):
        number = float(f"{float(value):.{_DIGITS}g}")
        # JSON has no infinity and no NaN.
        return number if np.isfinite(number) else None
    if isinstance(value, np.integer):
        return int(value)
    return value
