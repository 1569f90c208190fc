"""The machine's matmul peak: a square product, large enough to be bound by
arithmetic. The "loss" is the GFLOP/s of the step."""

import time

import common  # noqa: F401  oneDNN's products, as in every command

SIZE = 3072


def build(workload, options):
    """A step that multiplies two SIZE x SIZE matrices of `options["dtype"]`."""
    del workload
    import tensorflow as tf

    dtype = tf.as_dtype(options["dtype"])
    random = tf.random.Generator.from_seed(1)
    a, b = (
        tf.Variable(tf.cast(random.normal([SIZE, SIZE]), dtype))
        for _ in range(2)
    )

    @tf.function(autograph=False)
    def multiply():
        return tf.reduce_max(tf.matmul(a, b))

    def step():
        start = time.perf_counter()
        multiply().numpy()
        return 2 * SIZE**3 / (time.perf_counter() - start) / 1e9

    return step
