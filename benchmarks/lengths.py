"""Numbers of pieces per example: short sentences and long reviews.

Log-normal draws with assumed parameters, so that no data set is needed; they
were not fitted to SST-2 or IMDB, whose kind of text their names stand for.
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
