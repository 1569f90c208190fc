"""Runs an exported SavedModel: TensorFlow and tensorflow_text, no model code.

The thin layer under `serving.predict` and `serving.serve`.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the SentencePiece op
from google.protobuf import json_format, message
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.eager import cancellation  # no public name has it
from tensorflow.python.framework import op_def_registry

from common import files
from common.errors import UserError

RAW = "serving_default"
SIGNATURE_FILE = "signature.json"
FORMAT_VERSION = 1  # of that file
_SPIECE = os.path.join("assets", "spiece.model")

# Operations with a state that a model needs: variables, calls, the tokenizer.
_ALLOWED_STATEFUL = frozenset(
    (
        "Assert AssignVariableOp DestroyResourceOp DisableCopyOnRead "
        "HashTableV2 If LookupTableFindV2 LookupTableImportV2 "
        "LookupTableSizeV2 ReadVariableOp ResourceGather ResourceGatherNd "
        "SentencepieceDetokenizeOp SentencepieceIdToStringOp SentencepieceOp "
        "SentencepieceTokenizeOp SentencepieceTokenizeWithOffsetsOp "
        "SentencepieceVocabSizeOp StatefulPartitionedCall VarHandleOp "
        "VarIsInitializedOp VariableShape While"
    ).split()
)
# Parts of the names of stateless operations that reach beyond the graph.
_REACHING = ("File", "Dataset", "PyFunc", "Reader", "Snapshot", "Debug", "Xla")


class Stop:
    """Ends a run from another thread: `request`, at the next operation."""

    def __init__(self):
        self._manager = cancellation.CancellationManager()

    def request(self) -> None:
        """The run raises `tf.errors.CancelledError`, now or when it begins."""
        self._manager.start_cancel()

    def watch(self):
        """A context; runs begun in it can be stopped."""
        return cancellation.CancellationManagerContext(self._manager)


class SavedModel:
    """A loaded version folder.

    Args:
      directory: a version folder, or its parent (the highest number is taken).
      trust: run the graph although it holds operations on files or Python.

    Attributes:
      version_dir: the folder that was loaded.
      version: its name.
      description: content of `signature.json`.

    Raises:
      UserError: no SavedModel of ours is there, or its graph holds operations
        that a model does not need.
    """

    def __init__(self, directory: str, trust: bool = False):
        self.version_dir = find_version(directory)
        self.version = os.path.basename(os.path.normpath(self.version_dir))
        self.description = _read_description(self.version_dir)
        self._proto = _read_proto(self.version_dir)
        if not trust:
            _check_operations(self.version_dir, self._proto)
        self._loaded = _load(self.version_dir)

    def inputs(self, signature: str = RAW) -> dict[str, dict]:
        """Input name -> dtype and shape.

        Raises:
          UserError: no such signature.
        """
        known = self.description["signatures"]
        if signature not in known:
            raise UserError(
                f"signature_name must be one of {sorted(known)}, received "
                f"{signature!r}"
            )
        return known[signature]["inputs"]

    @property
    def signature_defs(self) -> dict:
        """Signature name -> its SignatureDef as JSON."""
        found = self._proto.meta_graphs[0].signature_def
        return {
            name: json_format.MessageToDict(
                found[name],
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name in sorted(found)
        }

    @property
    def variable_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every variable that a signature reads."""
        return {
            variable.name: tuple(variable.shape)
            for function in self._loaded.signatures.values()
            for variable in function.variables
        }

    def __call__(
        self,
        inputs: Mapping[str, object],
        signature: str = RAW,
        stop: Stop | None = None,
    ) -> dict[str, np.ndarray]:
        """Runs one batch.

        Args:
          inputs: name -> nested lists or arrays, batch first.
          signature: which function.
          stop: ends the run from another thread.

        Returns:
          Output name -> array; strings are bytes objects.
        """
        wanted = self.inputs(signature)
        if set(wanted) != set(inputs):
            raise UserError(
                f"wanted the inputs {sorted(wanted)}, found {sorted(inputs)}"
            )
        tensors = {
            name: tf.constant(inputs[name], tf.as_dtype(spec["dtype"]))
            for name, spec in wanted.items()
        }
        with stop.watch() if stop else contextlib.nullcontext():
            outputs = self._loaded.signatures[signature](**tensors)
        # Sorted: their order changes from process to process.
        return {name: outputs[name].numpy() for name in sorted(outputs)}

    def warm_up(self) -> None:
        """Asks the first function once: the first real caller waits less."""
        self({name: _example(spec) for name, spec in self.inputs().items()})


def _example(spec: Mapping):
    """A small value of an input."""
    shape = [1 if size is None else size for size in spec["shape"]]
    if spec["dtype"] != "string":
        return np.zeros(shape, spec["dtype"])
    return ["warm up"] if len(shape) == 1 else [["a", "b"]]


def _load(version_dir: str):
    """`tf.saved_model.load`, with one line for damaged variables."""
    try:
        return tf.saved_model.load(files.plain_folder(version_dir))
    # Its readers raise Python's errors, too: IndexError, FileNotFoundError.
    except (tf.errors.OpError, OSError, LookupError, RuntimeError) as e:
        raise UserError(
            f"{os.path.join(version_dir, 'variables')} cannot be read "
            f"({str(e).strip().splitlines()[0][:160]}); copy the folder again "
            "or export the model anew"
        ) from e


def is_version(directory: str) -> bool:
    """Whether a folder is a SavedModel itself."""
    return tf.io.gfile.exists(os.path.join(directory, "saved_model.pb"))


def versions_below(directory: str) -> list[int]:
    """The numbers of the version folders of a model folder."""
    if not tf.io.gfile.isdir(directory):
        return []
    names = (n.rstrip("/") for n in tf.io.gfile.listdir(directory))
    return [int(n) for n in names if n.isdigit()]


def find_version(directory: str) -> str:
    """The version folder itself, or the highest one below `directory`."""
    if is_version(directory):
        return directory
    versions = sorted(versions_below(directory), reverse=True)
    for number in versions:
        path = os.path.join(directory, str(number))
        if is_version(path):
            return path
        print(f"{path} is incomplete: skipped", file=sys.stderr, flush=True)
    raise UserError(
        f"--saved_model_dir={directory} holds no SavedModel: wanted "
        "saved_model.pb or a folder with a number; export one with "
        "`--do_export` or `python -m serving.export`"
    )


def _read_proto(version_dir: str) -> saved_model_pb2.SavedModel:
    path = os.path.join(version_dir, "saved_model.pb")
    try:
        with files.open_binary(path) as f:
            proto = saved_model_pb2.SavedModel.FromString(f.read())
    except (OSError, tf.errors.OpError, message.DecodeError) as e:
        raise UserError(f"{path} cannot be read: export the model anew") from e
    if not proto.meta_graphs:
        raise UserError(f"{path} holds no graph: export the model anew")
    return proto


def _check_operations(version_dir: str, proto) -> None:
    """Raises UserError when the graph can do more than compute."""
    wrong = sorted(op for op in _operations(proto) if not _is_allowed(op))
    if wrong:
        raise UserError(
            f"{version_dir}: the graph holds {', '.join(wrong[:5])}, which can "
            "reach files, Python or the machine; load it only if you know who "
            "made it, with --trust_model"
        )


def _operations(proto) -> set[str]:
    """Operations that loading or a signature may run, with called functions.

    What only the saver calls is left out: its operations write checkpoints,
    and neither loading nor a signature runs them.
    """
    found: set[str] = set()
    for graph in proto.meta_graphs:
        library = {
            f.signature.name: f.node_def
            for f in graph.graph_def.library.function
        }
        saver = {
            graph.saver_def.save_tensor_name.split(":")[0],
            graph.saver_def.restore_op_name,
        }
        nodes = [n for n in graph.graph_def.node if n.name not in saver]
        waiting = list(graph.object_graph_def.concrete_functions)
        seen: set[str] = set()
        while nodes or waiting:
            for node in nodes:
                if node.op in library:
                    waiting.append(node.op)
                else:
                    found.add(node.op)
                for value in node.attr.values():
                    waiting.append(value.func.name)
                    waiting += [f.name for f in value.list.func]
            name = waiting.pop() if waiting else ""
            fresh = name in library and name not in seen
            seen.add(name)
            nodes = library[name] if fresh else []
    return found


def _is_allowed(name: str) -> bool:
    definition = op_def_registry.get(name)
    if definition is None:
        return False
    if definition.is_stateful:
        return name in _ALLOWED_STATEFUL
    return not any(part in name for part in _REACHING)


def _read_description(version_dir: str) -> dict:
    path = os.path.join(version_dir, SIGNATURE_FILE)
    try:
        with files.open_binary(path) as f:
            value = json.loads(f.read())
    except (OSError, tf.errors.OpError, ValueError, RecursionError) as e:
        raise UserError(
            f"{path} cannot be read: wanted a folder that `--do_export` or "
            "`python -m serving.export` wrote"
        ) from e
    problem = _problem_of(value)
    if problem:
        raise UserError(f"{path}: {problem}; export the model anew")
    spiece = os.path.join(version_dir, _SPIECE)
    wanted = value.get("spiece_sha256")
    if wanted and files.exists(spiece):
        found = files.sha256_of_file(spiece)
        if found != wanted:
            raise UserError(
                f"{spiece}: wanted the SentencePiece file with SHA-256 "
                f"{wanted[:12]}..., found {found[:12]}...; export anew"
            )
    return value


# Member of `signature.json` -> its type; those with a bar may be missing.
_MEMBERS = {
    "format_version": int,
    "task": str,
    "head": str,
    "labels": list,
    "max_seq_length": int,
    "signatures": dict,
    "segments|": int,
    "vocab_size|": int,
    "model_type|": str,
    "precision|": str,
    "unit|": str,
    "sizes|": dict,
    "spiece_sha256|": str,
}


def _problem_of(value) -> str:
    """What is wrong with the content of `signature.json`, or ""."""
    if not isinstance(value, dict):
        return f"wanted a JSON object, found {type(value).__name__}"
    if value.get("format_version") != FORMAT_VERSION:
        found = str(value.get("format_version"))[:20]
        return f"wanted format_version {FORMAT_VERSION}, found {found}"
    for key, kind in _MEMBERS.items():
        name = key.rstrip("|")
        if name not in value and key != name:
            continue
        found = value.get(name)
        if not isinstance(found, kind) or isinstance(found, bool):
            return (
                f"{name}: wanted {kind.__name__}, found {type(found).__name__}"
            )
    if not all(isinstance(label, str) for label in value["labels"]):
        return "labels: wanted strings"
    for name in ("max_seq_length", "segments", "vocab_size"):
        if value.get(name, 1) < 1:
            return f"{name}: wanted 1 or more, found {value[name]}"
    for name, size in value.get("sizes", {}).items():
        if type(size) is not int or size < 1:
            return f"sizes.{name}: wanted a number of 1 or more, found {size}"
    if RAW not in value["signatures"]:
        return f"signatures: {RAW} is missing"
    for name, signature in value["signatures"].items():
        for side in ("inputs", "outputs"):
            tensors = signature.get(side) if _is_dict(signature) else None
            if not _is_dict(tensors) or not all(
                map(_is_tensor, tensors.values())
            ):
                return (
                    f"signatures.{name}.{side}: wanted names with dtype and "
                    "shape"
                )
    return ""


def _is_dict(value) -> bool:
    return isinstance(value, dict)


def _is_tensor(value) -> bool:
    if not _is_dict(value) or not isinstance(value.get("shape"), list):
        return False
    try:
        tf.as_dtype(value.get("dtype"))
    except TypeError:
        return False
    return all(
        size is None or (isinstance(size, int) and size >= 0)
        for size in value["shape"]
    )
