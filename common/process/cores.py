"""The cores that this process may use: `taskset` or a container may leave few."""

import os


def usable() -> list[int]:
    """Their numbers, rising; TensorFlow starts as many threads by default."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
