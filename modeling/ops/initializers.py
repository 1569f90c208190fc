"""The initializer that a config asks for, as Keras serialises it."""

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
