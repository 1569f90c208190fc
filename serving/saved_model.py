"""Runs an exported SavedModel: TensorFlow and tensorflow_text, no model code.

The thin layer under `serving.predict` and `serving.serve`.
"""

import contextlib
import functools
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the SentencePiece op
from google.protobuf import json_format
from tensorflow.python.eager import cancellation  # no public name has it

from common import files
from common.errors import UserError
from common.process import memory
from common.weights import bundle
from common.weights.weights_line import weights_line
from serving.exported import graph_check, limits

RAW = "serving_default"
SIGNATURE_FILE = "signature.json"
FORMAT_VERSION = 1  # of that file
_SPIECE = os.path.join("assets", "spiece.model")
_VARIABLES = "variables"


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
      trust: load what `serving.exported.graph_check` would refuse.

    Raises:
      UserError: no SavedModel of ours is there, it is damaged, or it holds
        what our exports do not.
    """

    def __init__(self, directory: str, trust: bool = False):
        self.version_dir = find_version(directory)
        self.version = os.path.basename(os.path.abspath(self.version_dir))
        if not trust:
            graph_check.check_files(self.version_dir)
        self.description = _read_description(self.version_dir)
        self._proto = graph_check.read(self.version_dir)
        problem = _difference(
            self.description["signatures"],
            self._proto.meta_graphs[0].signature_def,
        )
        if problem:
            path = os.path.join(self.version_dir, SIGNATURE_FILE)
            raise UserError(f"{path}: {problem}; export the model again")
        if trust:
            self._loaded = _load(self.version_dir, self.version_dir)
            return
        graph_check.check(self.version_dir, self._proto)
        weights = os.path.join(self.version_dir, _VARIABLES, _VARIABLES)
        if files.exists(weights + ".index"):
            bundle.check(weights)
        with _checked_copy(self.version_dir, self._proto) as folder:
            self._loaded = _load(folder, self.version_dir)

    @property
    def weights_line(self) -> str:
        """What a command says of the weights that it reads."""
        # Exports of older versions do not say which they hold.
        about = self.description.get("weights", {})
        path = about.get("checkpoint", self.version_dir)
        return weights_line(path, about.get("why", ""))

    def inputs(self, signature: str = RAW) -> dict[str, dict]:
        """Input name -> dtype and shape; UserError: no such signature."""
        known = self.description["signatures"]
        if signature not in known:
            raise UserError(
                f"signature_name must be one of {sorted(known)}, received "
                f"{signature!r}"
            )
        return known[signature]["inputs"]

    @functools.cached_property
    def signature_defs(self) -> dict:
        """Signature name -> its SignatureDef as JSON."""
        signatures = self._proto.meta_graphs[0].signature_def
        return {
            name: json_format.MessageToDict(
                signatures[name],
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name in sorted(signatures)
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
        """Runs one batch, of nested lists or arrays by input name, batch first.

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
    """A small value of an input; UserError where it takes no small one."""
    shape = [1 if size is None else size for size in spec["shape"]]
    if spec["dtype"] != "string":
        if math.prod(shape) > limits.MAX_NUMBERS:
            raise UserError(
                f"the model needs inputs of the shape {shape}: at most "
                f"{limits.MAX_NUMBERS} numbers are given in a row"
            )
        return np.zeros(shape, spec["dtype"])
    # One item, as numbers have: inputs that run along a list must agree.
    return ["warm up"] if len(shape) == 1 else [["a"]]


@contextlib.contextmanager
def _checked_copy(version_dir: str, proto) -> Iterator[str]:
    """A folder with the checked graph and the weights of `version_dir`.

    What lies there may be another file by now.
    """
    source = os.path.join(version_dir, _VARIABLES)
    with files.temporary_folder() as folder:
        with open(os.path.join(folder, "saved_model.pb"), "wb") as f:
            f.write(graph_check.loadable(proto))
        target = os.path.join(folder, _VARIABLES)
        if files.is_remote(version_dir):
            os.mkdir(target)
            for name in files.list_names(source):
                tf.io.gfile.copy(f"{source}/{name}", f"{target}/{name}")
        else:
            os.symlink(os.path.abspath(source), target)
        yield folder


def _load(folder: str, version_dir: str):
    """`tf.saved_model.load`, with one line for what is damaged."""
    try:
        return tf.saved_model.load(files.plain_folder(folder))
    # A damaged file leads it to whatever error of Python's.
    except Exception as e:
        what = [line for line in str(e).splitlines() if line.strip()]
        what = what[0].strip() if what else type(e).__name__
        raise UserError(
            f"{os.path.join(version_dir, _VARIABLES)} cannot be read "
            f"({what.replace(folder, version_dir)[:160]}); copy the folder "
            "again or export the model again"
        ) from e


def is_version(directory: str) -> bool:
    """Whether a folder is a SavedModel itself."""
    return tf.io.gfile.exists(os.path.join(directory, "saved_model.pb"))


def versions_below(directory: str) -> list[int]:
    """The numbers of the version folders of a model folder."""
    if not tf.io.gfile.isdir(directory):
        return []
    names = (n.rstrip("/") for n in tf.io.gfile.listdir(directory))
    # Not "²", which is a digit but no number, and not "007", which is not 7.
    return [int(n) for n in names if n.isdecimal() and n == str(int(n))]


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


def _read_description(version_dir: str) -> dict:
    path = os.path.join(version_dir, SIGNATURE_FILE)
    try:
        with files.open_binary(path) as f:
            content = f.read()
        memory.check_json(content, path)
        value = json.loads(content)
    except (OSError, tf.errors.OpError, ValueError, RecursionError) as e:
        raise UserError(
            f"{path} cannot be read: wanted a folder that `--do_export` or "
            "`python -m serving.export` wrote"
        ) from e
    problem = _problem_of(value)
    if problem:
        raise UserError(f"{path}: {problem}; export the model again")
    spiece = os.path.join(version_dir, _SPIECE)
    wanted = value.get("spiece_sha256")
    if wanted and files.exists(spiece):
        sha256 = files.sha256_of_file(spiece)
        if sha256 != wanted:
            raise UserError(
                f"{spiece}: wanted the SentencePiece file with SHA-256 "
                f"{wanted[:12]}..., found {sha256[:12]}...; export again"
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
    "mem_len|": int,
    "prompt_segment|": int,
    "vocab_size|": int,
    "model_type|": str,
    "precision|": str,
    "unit|": str,
    "sizes|": dict,
    "data_options|": dict,
    "weights|": dict,
    "type_vocab_size|": int,
    "max_position_embeddings|": int,
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
    at_least_one = (
        "max_seq_length",
        "segments",
        "vocab_size",
        "prompt_segment",
    )
    for name in at_least_one:
        if value.get(name, 1) < 1:
            return f"{name}: wanted 1 or more, found {value[name]}"
    for name, size in value.get("sizes", {}).items():
        if type(size) is not int or size < 1:
            return f"sizes.{name}: wanted a number of 1 or more, found {size}"
    if RAW not in value["signatures"]:
        return f"signatures: {RAW} is missing"
    for name, signature in value["signatures"].items():
        for side in ("inputs", "outputs"):
            tensors = (
                signature.get(side) if isinstance(signature, dict) else None
            )
            if not isinstance(tensors, dict) or not all(
                map(_is_tensor, tensors.values())
            ):
                return (
                    f"signatures.{name}.{side}: wanted names with dtype and "
                    "shape"
                )
    return ""


def _difference(described: Mapping, found: Mapping) -> str:
    """How `signature.json` and the graph's signatures differ, or ""."""
    for name, signature in described.items():
        if name not in found:
            return f"signatures.{name}: the graph has no such function"
        theirs = {
            key: (
                tf.as_dtype(tensor.dtype).name,
                [
                    None if d.size < 0 else d.size
                    for d in tensor.tensor_shape.dim
                ],
            )
            for key, tensor in found[name].inputs.items()
        }
        ours = {
            key: (tf.as_dtype(spec["dtype"]).name, spec["shape"])
            for key, spec in signature["inputs"].items()
        }
        wrong = sorted(
            key
            for key in ours.keys() | theirs.keys()
            if ours.get(key) != theirs.get(key)
        )
        wrong += sorted(signature["outputs"].keys() - set(found[name].outputs))
        if wrong:
            return f"signatures.{name}.{wrong[0]}: the graph has another"
    return ""


def _is_tensor(value) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("shape"), list):
        return False
    try:
        tf.as_dtype(value.get("dtype"))
    except TypeError:
        return False
    return all(
        size is None or (isinstance(size, int) and size >= 0)
        for size in value["shape"]
    )
