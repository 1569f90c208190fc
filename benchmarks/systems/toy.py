"""A system without any library, for the tests of the harness.

Options: `sleep` seconds per step; `fail_at` step that raises; `nan_at` step
whose loss is not finite; `fail_build` message.
"""

import time


def build(workload, options):
    """A step function that sleeps."""
    if options.get("fail_build"):
        raise RuntimeError(options["fail_build"])
    count = 0

    def step():
        nonlocal count
        time.sleep(options.get("sleep", 0.0))
        count += 1
        if count == options.get("fail_at"):
            raise RuntimeError("planted")
        if count == options.get("nan_at"):
            return float("nan")
        return float(workload.seed)

    return step
