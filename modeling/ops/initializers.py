"""The initializers that a config asks for, and where heads may look at first."""

import numpy as np
import tf_keras


def from_config(config, scale: float = 1.0) -> dict:
    """The initializer of an `EncoderConfig`, in serialised form.

    Layers take it in this form and make one instance per variable, so that
    no two variables share an instance (they would get equal values). `scale`
    is times the deviation of a normal one.
    """
    deviation = config.init_std * scale
    if config.init_method == "truncated_normal":
        initializer = tf_keras.initializers.TruncatedNormal(stddev=deviation)
    elif config.init_method == "uniform":
        initializer = tf_keras.initializers.RandomUniform(
            -config.init_range, config.init_range
        )
    else:
        initializer = tf_keras.initializers.RandomNormal(stddev=deviation)
    return tf_keras.initializers.serialize(initializer)


def fresh(serialised: dict | str) -> tf_keras.initializers.Initializer:
    """A new initializer instance."""
    return tf_keras.initializers.get(serialised)


def neighbour_distances(n_head: int, causal: bool = False) -> np.ndarray:
    """int [ceil(N/2)]: i - j, from query i to the key j nearest to it, per head.

    1, -1, 2, -2, ...: the token before, the one after, and so on; `causal`
    has 1, 2, 3, .... The other heads have none: a model whose heads all begin
    with a neighbour predicts tokens better and classifies texts worse
    (docs/explanation/small_models/unigram_plateau.md).
    """
    count = np.arange((n_head + 1) // 2)
    if causal:
        return count + 1
    return (count // 2 + 1) * np.where(count % 2, -1, 1)
