"""Numbers of pieces per example, as real tasks have them.

Drawn from log-normal fits, so that no data set is needed: SST-2's development
sentences have a median of 24 pieces (0.6 in the logarithm), IMDB's reviews a
median of 230 (0.72). `benchmarks.lengths` files hold one number per line.
"""

import os
import tempfile

import numpy as np

# name -> (median pieces, sigma of the logarithm)
DISTRIBUTIONS = {"sst2": (24, 0.6), "imdb": (230, 0.72)}
SHORTEST = 4


def draw(name: str, count: int, seed: int = 3) -> np.ndarray:
    """int64 [count] numbers of pieces."""
    median, sigma = DISTRIBUTIONS[name]
    random = np.random.default_rng(seed)
    values = np.exp(random.normal(np.log(median), sigma, count))
    return np.maximum(SHORTEST, values.astype(np.int64))


def write(name: str, count: int) -> str:
    """A temporary file of drawn lengths; returns its path."""
    folder = tempfile.mkdtemp(prefix="lengths-")
    path = os.path.join(folder, f"{name}.txt")
    np.savetxt(path, draw(name, count), fmt="%d")
    return path
