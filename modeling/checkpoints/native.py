"""Native checkpoints: `tf.train.Checkpoint` with a task model as `model`.

Variables are found by walking the stored object graph along attribute paths,
so optimizers, counters and memory beside the model do not matter.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import trackable_object_graph_pb2

from common import files, locks
from common.errors import UserError
from common.weights import bundle
from modeling.checkpoints.folder import publish
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import write_config

PREFIX = "ckpt"
# Attribute path of `training.optim.optimizer.AdamW`'s averages in a checkpoint.
AVERAGES = ("optimizer", "ema")

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
_LONGEST = 1000  # characters of an attribute path


def is_native(prefix: str) -> bool:
    """Whether a checkpoint prefix holds an object graph."""
    return open_reader(prefix).has_tensor(_GRAPH_KEY)


def readable(prefix: str) -> str:
    """The prefix that TensorFlow's readers take (`files.plain_folder`).

    Raises UserError: its name has signs of a pattern, or its index is damaged.
    """
    folder, name = os.path.split(prefix)
    if re.search(r"[\[*?\\]", name):
        raise UserError(
            f"{prefix}: TensorFlow takes [ * ? and \\ in the name of a "
            "checkpoint for a pattern; rename its files"
        )
    bundle.check(prefix)
    return os.path.join(files.plain_folder(folder), name)


def open_reader(prefix: str):
    """`tf.train.load_checkpoint` with a `UserError` for a damaged file."""
    try:
        return tf.train.load_checkpoint(readable(prefix))
    except (tf.errors.OpError, ValueError, RuntimeError) as e:
        raise UserError(
            f"{prefix} is not a readable checkpoint: {str(e).splitlines()[0]}"
        ) from e


def read_tensor(reader, key: str, prefix: str):
    """One tensor, with a `UserError` for a damaged file."""
    try:
        return reader.get_tensor(key)
    # The reader has an exception of its own for each way to fail.
    except Exception as e:
        raise UserError(
            f"{prefix}: `{key}` is damaged: {str(e).splitlines()[0]}"
        ) from e


def read(prefix: str) -> dict[tuple[str, ...], np.ndarray]:
    """Every array below `model`: all of its attribute paths -> array.

    Raises UserError: no attribute `model`, or a damaged file.
    """
    reader = open_reader(prefix)
    nodes = _read_nodes(reader, prefix)
    roots = [c.node_id for c in nodes[0].children if c.local_name == "model"]
    if not roots:
        child_names = sorted(c.local_name for c in nodes[0].children)
        raise UserError(
            f"{prefix}: wanted a checkpoint with the attribute `model`, found "
            f"{child_names}"
        )
    # Breadth first; objects are walked below once, named by every path.
    names, queue, seen = {}, [(roots[0], "")], set()
    while queue:
        node_id, path = queue.pop(0)
        for attribute in nodes[node_id].attributes:
            if attribute.name == _VALUE:
                names.setdefault(attribute.checkpoint_key, []).append(path)
        if node_id in seen:
            continue
        seen.add(node_id)
        for child in nodes[node_id].children:
            below = f"{path}/{child.local_name}" if path else child.local_name
            if len(below) > _LONGEST:  # a chain of objects: longer and longer
                raise UserError(f"{prefix}: its objects are nested too deeply")
            queue.append((child.node_id, below))
    return {
        tuple(paths): read_tensor(reader, key, prefix)
        for key, paths in names.items()
    }


def with_averages(
    prefix: str, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """`arrays` by canonical name, with moving averages where there are any.

    A training checkpoint of a run with an `ema_decay` holds them; evaluation,
    prediction, export and fine-tuning take them instead of the last weights.
    """
    averages = _read_averages(prefix)
    return {n: averages.get(n, value) for n, value in arrays.items()}


def names_below(prefix: str, *path: str) -> set[str]:
    """Names of what a checkpoint holds below a path; empty where nothing is."""
    nodes = _read_nodes(open_reader(prefix), prefix)
    return {name for name, _ in _below(nodes, path)}


def _below(nodes, path: tuple[str, ...]) -> list[tuple[str, int]]:
    """(name, number of the node) of the children at the end of a path."""
    node = 0
    for name in path:
        below = {c.local_name: c.node_id for c in nodes[node].children}
        if name not in below:
            return []
        node = below[name]
    return [(c.local_name, c.node_id) for c in nodes[node].children]


def _read_averages(prefix: str) -> dict[str, np.ndarray]:
    reader = open_reader(prefix)
    nodes = _read_nodes(reader, prefix)
    return {
        name: read_tensor(
            reader, nodes[at].attributes[0].checkpoint_key, prefix
        )
        for name, at in _below(nodes, AVERAGES)
    }


def _read_nodes(reader, prefix: str):
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(read_tensor(reader, _GRAPH_KEY, prefix))
    return graph.nodes


_ENCODER = "encoder/"  # where a task model has it


def by_name(
    arrays: dict[tuple[str, ...], np.ndarray],
    paths: dict[str, str],
    elsewhere: Mapping[str, str] | None = None,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Renames from attribute paths to canonical names.

    `elsewhere` has attribute paths of models with other heads -> canonical
    names, for names that no path of its own gives; the first one counts.
    Returns the arrays by canonical name, and the attribute paths that no name
    takes.
    """
    names = {path: name for name, path in paths.items()}
    renamed, left = {}, {}
    for aliases, value in arrays.items():
        name = next((names[a] for a in aliases if a in names), None)
        if name is None:
            left[aliases] = value
        else:
            renamed[name] = value
    # A checkpoint of an encoder alone holds it as `model` itself; a model that
    # is one finds it below a task model's.
    alone = {p.removeprefix(_ENCODER): n for n, p in paths.items()}
    alone |= {_ENCODER + path: name for path, name in alone.items()}
    for path, name in {**alone, **(elsewhere or {})}.items():
        aliases = next((a for a in left if path in a), None)
        if aliases and name not in renamed:
            renamed[name] = left.pop(aliases)
    return renamed, [aliases[0] for aliases in left]


def beside_encoder(arrays: Mapping[tuple[str, ...], np.ndarray]) -> set[str]:
    """First paths of what a task model has beside its encoder.

    Empty where the checkpoint is of an encoder alone.
    """
    below = {
        aliases: any(path.startswith(_ENCODER) for path in aliases)
        for aliases in arrays
    }
    if not any(below.values()):
        return set()
    return {aliases[0] for aliases, is_below in below.items() if not is_below}


def write(
    folder: str,
    model: tf_keras.Model,
    config: EncoderConfig,
    add: Callable[[str], None] | None = None,
) -> None:
    """Writes a model as a new native folder, complete or not at all.

    The folder must not exist or be empty; `add` puts more files into it.
    """
    with new_folder(folder) as temporary:
        prefix = os.path.join(temporary, f"{PREFIX}-1")
        tf.train.Checkpoint(model=model).write(prefix)
        publish(temporary, [prefix])
        write_config(temporary, config)
        if add is not None:
            add(temporary)


@contextlib.contextmanager
def new_folder(folder: str) -> Iterator[str]:
    """A temporary sibling that becomes `folder` when all went well.

    Of a link to a folder, the folder. Raises UserError: it is not empty, or
    another process makes it. OSError: it is a link to nothing.
    """
    folder = folder.rstrip("/")
    if os.path.islink(folder):
        os.makedirs(folder, exist_ok=True)  # the system's words
        folder = os.path.realpath(folder)
    with locks.held(folder, is_folder=False):
        if tf.io.gfile.exists(folder) and (
            not tf.io.gfile.isdir(folder) or tf.io.gfile.listdir(folder)
        ):
            raise UserError(
                f"{folder} is not empty: give a new folder, or remove it"
            )
        temporary = files.temporary_name(folder)
        parent, name = os.path.split(folder)
        locks.remove_leftovers(parent, re.escape(name))
        tf.io.gfile.makedirs(temporary)
        try:
            yield temporary
            if tf.io.gfile.exists(folder):
                tf.io.gfile.rmtree(folder)
            tf.io.gfile.rename(temporary, folder)
        except BaseException:
            tf.io.gfile.rmtree(temporary)
            raise
