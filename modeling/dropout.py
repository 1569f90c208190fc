"""Dropout as a pure function of its seed.

A seed is int32 [2]. The caller folds step and replica into it; the backbone
folds the layer, and each site inside a layer has its number here. Equal seeds
give equal masks on every device and after every restart.
"""

import tensorflow as tf

# Sites inside one layer.
CONTENT_PROBABILITIES = 0
CONTENT_OUTPUT = 1
CONTENT_INNER = 2
CONTENT_FEED_FORWARD = 3
QUERY_PROBABILITIES = 4
QUERY_OUTPUT = 5
QUERY_INNER = 6
QUERY_FEED_FORWARD = 7
# Sites outside the layers.
EMBEDDING = 0
QUERY_EMBEDDING = 1
POSITIONS = 2
FINAL = 3
QUERY_FINAL = 4
SUMMARY = 5
SUMMARY_PROBABILITIES = 6
HEAD = 7


def fold(seed: tf.Tensor | None, number: int) -> tf.Tensor | None:
    """An independent seed for part `number` of the model; None stays None."""
    if seed is None:
        return None
    return tf.random.experimental.stateless_fold_in(seed, number)


def dropout(
    x: tf.Tensor, rate: float, seed: tf.Tensor | None, site: int
) -> tf.Tensor:
    """Zeroes a share `rate` of `x` and scales the rest by 1 / (1 - rate).

    Args:
      x: float tensor of any shape.
      rate: probability in [0, 1).
      seed: int32 [2], or None for no dropout.
      site: number of the place, added to the second half of the seed; the
        seeds of layers are far apart, so sites never meet.

    Returns:
      A tensor like `x`; `x` itself without a seed or rate.
    """
    if seed is None or rate == 0.0:
        return x
    return tf.nn.experimental.stateless_dropout(
        x, rate=rate, seed=seed + tf.constant([0, site], seed.dtype)
    )


def check_seed(training: bool, seed: tf.Tensor | None, rate: float) -> None:
    """Training with dropout and without a seed would silently drop nothing.

    Raises:
      ValueError: `training` with a positive `rate` and no `seed`.
    """
    if training and rate > 0 and seed is None:
        raise ValueError(
            "`training=True` with a positive dropout rate needs `seed` "
            "(int32 [2]); give one or set the rates of the config to 0"
        )
