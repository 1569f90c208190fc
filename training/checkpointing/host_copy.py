"""A checkpoint's objects once more, with copies of their values."""

import tensorflow as tf


def host_copy(checkpoint: tf.train.Checkpoint) -> tf.train.Checkpoint:
    """What `checkpoint` would write now, in plain variables of this process.

    Steps that follow change the originals only, so the copy can be written
    beside them. Names and places in the graph of objects stay, and with them
    the keys of the values.
    """
    view = tf.train.TrackableView(checkpoint)
    copies = {}

    def copy(node):
        if id(node) in copies:
            return copies[id(node)]
        if isinstance(node, tf.Variable):
            value = node.numpy()
            variable = tf.Variable(value, trainable=False, dtype=node.dtype)
            copies[id(node)] = variable
            return variable
        module = copies[id(node)] = tf.Module()
        for name, child in view.children(node).items():
            # The name as it is, whatever the class makes of an attribute.
            module._track_trackable(copy(child), name)
        return module

    with tf.device(_host()):
        children = {
            name: copy(child)
            for name, child in view.children(checkpoint).items()
        }
    return tf.train.Checkpoint(**children)


def _host() -> str:
    """This process's own CPU, also where it drives the workers of a TPU."""
    jobs = {d.name for d in tf.config.list_logical_devices("CPU")}
    here = [name for name in jobs if "/job:localhost" in name]
    return min(here) if here else "CPU:0"
