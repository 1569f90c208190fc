"""Memory of models that nobody needs any more."""

import contextlib
import gc
from collections.abc import Iterator

_PREFIX = "CustomGradient-"  # how TensorFlow names those of a trace


@contextlib.contextmanager
def released() -> Iterator[None]:
    """Gives back what is traced inside: graphs and all their variables.

    TensorFlow registers the gradient of every `tf.custom_gradient` that a
    `tf.function` traces under a name of its own, for as long as the process
    lives; its closure holds the graph, and the graph the variables: weights and
    optimizer slots of every model that was ever trained. Around one of several
    trainings in a process this forgets them. No function that was traced inside
    may be differentiated again.
    """
    from tensorflow.python.framework import ops

    known = ops.gradient_registry._registry
    before = set(known)
    try:
        yield
    finally:
        for name in set(known) - before:
            if name.startswith(_PREFIX):
                del known[name]
        gc.collect()
