"""`--dev_fraction`: rows of a training file that are dev, or not."""

import numpy as np

from common.errors import UserError
from data.finetuning.examples import TextExample
from data.finetuning.options import ClassifierDataOptions


def share(
    examples: list[TextExample],
    options: ClassifierDataOptions,
    path: str | None,
    held_out: bool,
) -> list[TextExample]:
    """Rows of the training file that are held out as dev, or the others.

    Raises UserError where one of both is empty.
    """
    chosen = held_out_rows(
        len(examples), options.dev_fraction, options.dev_seed
    )
    if chosen.all() or not chosen.any():
        raise UserError(
            f"--dev_fraction={options.dev_fraction} takes "
            f"{int(chosen.sum())} of {len(examples)} rows of "
            f"{path}: change it or --dev_seed"
        )
    return [
        e
        for e, is_dev in zip(examples, chosen, strict=True)
        if is_dev == held_out
    ]


def held_out_rows(count: int, fraction: float, seed: int) -> np.ndarray:
    """bool `[count]`: row i is held out, a function of (seed, i) alone.

    More rows at a file's end leave the rows before where they are.
    """
    # SplitMix64 of the row's place in the seed's stream.
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        x = np.arange(1, count + 1, dtype=np.uint64)
        x += np.uint64((seed * 0xD1342543DE82EF95) % (1 << 64))
        x *= step
        x ^= x >> np.uint64(30)
        x *= np.uint64(0xBF58476D1CE4E5B9)
        x ^= x >> np.uint64(27)
        x *= np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53 < fraction
