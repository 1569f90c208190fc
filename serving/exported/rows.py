"""A row of a file, and batched outputs of a signature -> one JSON object each."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from data.finetuning.examples import BadRows

# Outputs of these widths are cut to the row's own count: its name -> (outputs,
# how much shorter than it they are).
_PER_PIECE = ("label_ids", "labels", "piece_starts", "piece_ends", "piece_ids")
_COUNTS = {
    "num_pieces": dict.fromkeys(_PER_PIECE, 0),
    "num_tokens": {"token_ids": 0, "token_log_probs": 1},
    "num_masks": {"pieces": 0, "probabilities": 0},
}
_DIGITS = 7  # float32 holds no more


@dataclasses.dataclass(frozen=True)
class InputRow:
    """One example to predict."""

    where: str  # "file:line", for messages
    # input name -> text, or list of texts; None with a problem
    inputs: dict[str, object] | None
    # goes into the answer: `row` (from 0) or `key`, `true_label`, `tokens`
    known: dict[str, object] = dataclasses.field(default_factory=dict)
    problem: str = ""  # why the row cannot be used
    # characters (start, end) of the tokens, of a file of tagged ones
    units: tuple[tuple[int, int], ...] = ()


class Problems(BadRows):
    """Keeps what the readers report, in order, for rows of their own."""

    def __init__(self):
        super().__init__(skip=True)
        self._found: list[tuple[str, str]] = []

    def report(self, where: str, problem: str) -> None:
        self._found.append((where, problem))

    def taken(self) -> list[InputRow]:
        """A row of each, which are no longer kept."""
        found, self._found = self._found, []
        return [InputRow(w, None, problem=f"{w}: {p}") for w, p in found]


def format_row(
    description: Mapping, outputs: Mapping[str, np.ndarray], row: int
) -> dict:
    """One example's answer, ready for `json.dumps`.

    Probabilities come by class name where the model has names; logits and
    padding are left out.
    """
    labels = description["labels"]
    result = {}
    lengths = {}
    for counter, cut in _COUNTS.items():
        if counter in outputs:
            count = int(outputs[counter][row])
            lengths |= {k: max(count - n, 0) for k, n in cut.items()}
    for name, value in outputs.items():
        if name == "logits":
            continue
        cell = value[row]
        if name in lengths:
            cell = cell[: lengths[name]]
        cell = plain(cell)
        # Without labels an empty list stays a list: that of no masks.
        if name == "probabilities" and labels and len(labels) == len(cell):
            cell = dict(zip(labels, cell, strict=True))
        result[name] = cell
    return result


def finite(value):
    """A value that an answer repeats; JSON has no infinity and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
