"""Numbers of pieces per example: short sentences and long reviews.

With a data folder: the dev texts of SST-2 and IMDB as our own readers and
tokenizer give them. Without: log-normal draws with assumed parameters that were
not fitted to those sets; such rows are titled "assumed".
"""

import os
import tempfile

import numpy as np

from data.finetuning.classifier.sets import open_set
from data.finetuning.examples import BadRows
from data.finetuning.features.tokens import encode_batch, open_tokenizer
from data.finetuning.options import ClassifierDataOptions

# name -> (median pieces, sigma of the logarithm)
DISTRIBUTIONS = {
    "sst2": (24, 0.6),
    "imdb": (230, 0.72),
    # Cranfield: 144 words, 5 % above 326; about 1.4 pieces per word.
    "abstracts": (200, 0.5),
}
# name -> (task, its folder below the data folder)
TASKS = {"sst2": ("sst-2", "glue"), "imdb": ("imdb", "aclImdb")}
SHORTEST = 4
SPECIAL = 2  # <sep> and <cls>


def draw(name: str, count: int, seed: int = 3) -> np.ndarray:
    """int64 [count] numbers of pieces, from an assumed distribution."""
    median, sigma = DISTRIBUTIONS[name]
    random = np.random.default_rng(seed)
    values = np.exp(random.normal(np.log(median), sigma, count))
    return np.maximum(SHORTEST, values.astype(np.int64))


def read(
    name: str, data_dir: str, spiece_model_file: str, count: int, seed: int = 3
) -> np.ndarray:
    """int64 [count] numbers of pieces of dev texts drawn without repetition.

    Args:
      name: one of `TASKS`.
      data_dir: holds `glue/SST-2` and `aclImdb` in their official layouts.
      spiece_model_file: of the tokenizer.
      count: texts wanted; fewer where the set is smaller.
      seed: of the draw.

    Raises:
      UserError: a file is missing.
    """
    task_name, folder = TASKS[name]
    task = open_set(
        ClassifierDataOptions(task_name, os.path.join(data_dir, folder))
    )
    examples = task.read(task.eval_splits()[0], BadRows())
    chosen = np.random.default_rng(seed).permutation(len(examples))[:count]
    texts = [examples[i].texts[0] for i in chosen]
    ids = encode_batch(open_tokenizer(spiece_model_file), texts)
    return np.array([len(i) + SPECIAL for i in ids], np.int64)


def write(name: str, values: np.ndarray) -> str:
    """A temporary file of lengths; returns its path."""
    folder = tempfile.mkdtemp(prefix="lengths-")
    path = os.path.join(folder, f"{name}.txt")
    np.savetxt(path, values, fmt="%d")
    return path
