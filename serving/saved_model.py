"""Runs an exported SavedModel: TensorFlow and tensorflow_text, no model code.

The thin layer under `serving.predict` and `serving.serve`.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the SentencePiece op
from google.protobuf import json_format, message
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.eager import cancellation  # no public name has it

from common import files
from common.errors import UserError

RAW = "serving_default"
SIGNATURE_FILE = "signature.json"


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

    Attributes:
      version_dir: the folder that was loaded.
      version: its name.
      description: content of `signature.json`.

    Raises:
      UserError: no SavedModel of ours is there.
    """

    def __init__(self, directory: str):
        self.version_dir = find_version(directory)
        self.version = os.path.basename(os.path.normpath(self.version_dir))
        self.description = _read_description(self.version_dir)
        self._proto = _read_proto(self.version_dir)
        self._loaded = tf.saved_model.load(self.version_dir)

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
        return {name: value.numpy() for name, value in outputs.items()}

    def warm_up(self) -> None:
        """Asks the raw-text function once: the first real caller waits less."""
        self(
            {
                name: ["warm up"] if len(spec["shape"]) == 1 else [["a", "b"]]
                for name, spec in self.inputs().items()
            }
        )


def find_version(directory: str) -> str:
    """The version folder itself, or the highest one below `directory`."""
    if tf.io.gfile.exists(os.path.join(directory, "saved_model.pb")):
        return directory
    names: Sequence[str] = ()
    if tf.io.gfile.isdir(directory):
        names = [n.rstrip("/") for n in tf.io.gfile.listdir(directory)]
    versions = [int(n) for n in names if n.isdigit()]
    if not versions:
        raise UserError(
            f"--saved_model_dir={directory} holds no SavedModel: wanted "
            "saved_model.pb or a folder with a number; export one with "
            "`--do_export` or `python -m serving.export`"
        )
    return find_version(os.path.join(directory, str(max(versions))))


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


def _read_description(version_dir: str) -> dict:
    path = os.path.join(version_dir, SIGNATURE_FILE)
    try:
        with files.open_binary(path) as f:
            return json.loads(f.read())
    except (OSError, tf.errors.OpError, ValueError) as e:
        raise UserError(
            f"{path} cannot be read: wanted a folder that `--do_export` or "
            "`python -m serving.export` wrote"
        ) from e
