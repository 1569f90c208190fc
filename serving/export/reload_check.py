"""Loads a SavedModel as a stranger would and compares its answers.

Run as a script in a fresh process; it imports TensorFlow and tensorflow_text
alone (the latter registers the SentencePiece op) and none of this project:

    python reload_check.py SAVED_MODEL_DIR REQUESTS.npz TOLERANCE

`REQUESTS.npz` holds `in/SIGNATURE/NAME` and `out/SIGNATURE/NAME` arrays; byte
strings end with one byte more. Ends with status 0 when every output agrees, else
prints one line per difference.
"""

import argparse
import sys

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers ops


def main(directory: str, requests: str, tolerance: float) -> int:
    """Compares all signatures; the number of differences."""
    loaded = tf.saved_model.load(directory)
    with np.load(requests) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    signatures = sorted({name.split("/")[1] for name in values})
    problems = []
    for signature in signatures:
        function = loaded.signatures[signature]
        prefix = f"in/{signature}/"
        inputs = {
            name.removeprefix(prefix): tf.constant(_tensor(value))
            for name, value in values.items()
            if name.startswith(prefix)
        }
        outputs = function(**inputs)
        prefix = f"out/{signature}/"
        wanted = {
            name.removeprefix(prefix): value
            for name, value in values.items()
            if name.startswith(prefix)
        }
        if set(wanted) != set(outputs):
            problems.append(
                f"{signature}: wanted {sorted(wanted)}, found {sorted(outputs)}"
            )
            continue
        for name, value in wanted.items():
            answer = outputs[name].numpy()
            problem = _difference(_tensor(value), answer, tolerance)
            if problem:
                problems.append(f"{signature}/{name}: {problem}")
    for problem in problems:
        print(problem)
    return len(problems)


def _tensor(value: np.ndarray) -> np.ndarray:
    """Byte strings without the last byte, as objects for TensorFlow."""
    if value.dtype.kind != "S":
        return value
    tensor = np.empty(value.shape, object)
    tensor.reshape(-1)[:] = [v[:-1] for v in value.reshape(-1).tolist()]
    return tensor


def _difference(wanted: np.ndarray, found: np.ndarray, tolerance: float) -> str:
    if wanted.shape != found.shape:
        return f"wanted the shape {wanted.shape}, found {found.shape}"
    if wanted.dtype.kind != "f":
        return "" if np.array_equal(wanted, found) else "values differ"
    gap = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
    limit = tolerance * np.maximum(1.0, np.abs(wanted))
    if gap.size and not (gap <= limit).all():
        return f"values differ by {gap.max():.3g}"
    return ""


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    _parser.add_argument("directory", help="of the SavedModel")
    _parser.add_argument("requests", help="REQUESTS.npz, inputs and outputs")
    _parser.add_argument("tolerance", type=float, help="relative above 1")
    sys.exit(1 if main(**vars(_parser.parse_args())) else 0)
