"""Metrics by the length of the passages: are long texts harder?

The paper explains its gains on RACE by passages of more than 300 tokens
(section 3.2). Lengths are characters of the raw text, so that they depend on
neither the vocabulary nor on what `--max_seq_length` cuts.
"""

import os
from collections.abc import Callable

import numpy as np

from common import files

QUARTILES = 4


def by_quartile(
    lengths: np.ndarray, evaluate: Callable[[np.ndarray], dict[str, float]]
) -> list[dict[str, float]]:
    """Metrics of the examples of each quartile, the shortest first.

    Equal lengths are in one quartile, so quartiles need not be of equal size,
    and one may be missing.

    Args:
      lengths: int [examples].
      evaluate: indices of examples -> name -> value.

    Returns:
      `quartile` (from 1), `shortest`, `longest`, `examples`, then the metrics.
    """
    shares = np.arange(1, QUARTILES) / QUARTILES
    # Lengths that occur, so that no quartile is cut between two equal ones.
    edges = np.quantile(lengths, shares, method="lower")
    of = np.searchsorted(edges, lengths, side="left")
    rows = []
    for number in range(QUARTILES):
        inside = np.flatnonzero(of == number)
        if len(inside):
            sizes = lengths[inside]
            rows.append(
                {
                    "quartile": number + 1,
                    "shortest": int(sizes.min()),
                    "longest": int(sizes.max()),
                    "examples": len(inside),
                }
                | {k: float(v) for k, v in evaluate(inside).items()}
            )
    return rows


def write(model_dir: str, split: str, rows: list[dict]) -> str:
    """Writes `eval_<split>_by_length.json`; its path."""
    path = os.path.join(model_dir, f"eval_{split}_by_length.json")
    files.write_json(path, {"unit": "characters", "quartiles": rows})
    return path


def lines(rows: list[dict[str, float]]) -> list[str]:
    """A line per quartile."""
    about = ("quartile", "shortest", "longest", "examples")
    return [
        f"  {row['shortest']}..{row['longest']} characters, {row['examples']} "
        "examples: "
        + "  ".join(f"{k} {v:.5g}" for k, v in row.items() if k not in about)
        for row in rows
    ]
