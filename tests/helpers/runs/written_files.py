"""Files of a model folder, for comparison."""

import itertools

import numpy as np

_WEIGHTS = "model.ckpt-12"


def files_of(folder):
    """The loss log, and the last checkpoint's values."""
    names = ("losses.tsv", f"{_WEIGHTS}.data-00000-of-00001")
    return [(folder / name).read_bytes() for name in names]


def check_same(folder, other):
    """Both hold the same bytes; else says what differs, and from which step."""
    if files_of(folder) == files_of(other):
        return
    logs = [
        (f / "losses.tsv").read_text().splitlines() for f in (folder, other)
    ]
    rows = itertools.zip_longest(*logs)
    first = next((row for row in rows if row[0] != row[1]), "all losses equal")
    raise AssertionError(f"{first}; tensors: {_differing(folder, other)}")


def _differing(folder, other):
    """Tensor -> the largest difference; None where the shapes differ."""
    import tensorflow as tf

    one, two = (
        tf.train.load_checkpoint(str(f / _WEIGHTS)) for f in (folder, other)
    )
    found = {}
    for name, shape in one.get_variable_to_shape_map().items():
        if two.get_variable_to_shape_map().get(name) != shape:
            found[name] = None
            continue
        x, y = one.get_tensor(name), two.get_tensor(name)
        if np.asarray(x).tobytes() != np.asarray(y).tobytes():
            number = np.issubdtype(np.asarray(x).dtype, np.number)
            found[name] = float(np.abs(x - y).max()) if number else "bytes"
    return found
