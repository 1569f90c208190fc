"""Finding, reading and restoring checkpoints of three formats.

native: `tf.train.Checkpoint` with a task model as `model`; tf1: the original's
released layout; hf: a folder with `config.json` and weights in one of the
forms of `hf_files`.
"""

import dataclasses
import hashlib
import os

import numpy as np
import tensorflow as tf
import tf_keras

from common import files
from common.errors import UserError
from common.weights import hub
from common.weights.released_weights import FORMS
from common.weights.weights_line import AUTO, weights_line
from modeling.checkpoints import hf as hf_checkpoint
from modeling.checkpoints import hf_files, weights
from modeling.checkpoints import native as native_checkpoint
from modeling.checkpoints import tf1 as tf1_checkpoint
from modeling.checkpoints.folder import SHARD
from modeling.checkpoints.names import (
    absent_as_zeros,
    encoder_of,
    named_variables,
    variable_paths,
)
from modeling.encoders import sizes
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    config_file_in,
    config_file_names,
    read_config,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a checkpoint is and what it is."""

    format: str  # "native", "tf1" or "hf"
    path: str  # checkpoint prefix, or the folder for "hf"
    folder: str  # where the config and `spiece.model` are looked for
    # this one of the folder's; "" = it was named, or it is the only one
    why: str = ""
    part: str = ""  # "encoder" leaves the head out

    @property
    def line(self) -> str:
        """What a command says of the weights that it reads."""
        return weights_line(self.path, self.why)


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """What a restore did, by canonical name (surplus: by its own name)."""

    source: Source
    restored: tuple[str, ...]  # variables that got their value from it
    # variables of the model that it lacks; they keep their value
    fresh: tuple[str, ...]
    unused: tuple[str, ...]  # what it holds and the model does not take
    stripped: tuple[str, ...]  # optimizer slots and counters left out

    def __str__(self) -> str:
        lines = [
            f"restored {len(self.restored)} variables from the "
            f"{self.source.format} checkpoint {self.source.path}"
        ]
        for title, names in (
            ("not in it, left as initialized", self.fresh),
            ("in it, not used", self.unused),
        ):
            if names:
                lines.append(f"{title}: {', '.join(names)}")
        if self.stripped:
            lines.append(
                f"{len(self.stripped)} optimizer slots and counters left out"
            )
        return "\n".join(lines)


def resolve(path: str, choice: str = AUTO, part: str = "") -> Source:
    """Finds the checkpoint that a user means.

    The path is a directory (native or HF), a prefix, an `.index` or `.data`
    file, the `checkpoint` file beside them, or a name on the hub
    (`common.weights.hub`); `choice` is of a directory's checkpoints, see
    `weights.choose`. With `part` "encoder" the head is left out. Raises
    UserError: nothing there, nothing whole, checkpoints of several names
    without a `checkpoint` file, or not the one of `choice`.
    """
    path, why = hub.local(path), ""
    if os.path.basename(path) == "checkpoint" and not tf.io.gfile.isdir(path):
        path = os.path.dirname(path) or "."
    if tf.io.gfile.isdir(path):
        folder = path
        if hf_files.form_of(path):
            return Source("hf", path, folder, part=part)
        chosen = weights.choose(path, choice)
        if chosen is None:
            raise UserError(
                f"{folder} holds no checkpoint: wanted a `checkpoint` file "
                f"with its .index, or one of {', '.join(FORMS)}"
            )
        prefix, why = chosen
    else:
        prefix = path
        for ending in (".index", ".meta"):
            prefix = prefix.removesuffix(ending)
        if shard := SHARD.fullmatch(prefix):
            prefix = shard[1]
        folder = os.path.dirname(prefix)
        if not tf.io.gfile.exists(prefix + ".index"):
            raise UserError(
                f"no checkpoint at {path}: wanted a directory, a prefix with "
                f"{prefix}.index, or an HF folder with {FORMS[0]}"
            )
    kind = "native" if native_checkpoint.is_native(prefix) else "tf1"
    return Source(kind, prefix, weights.home_of(folder), why, part)


def content_digest(path: str | Source) -> str:
    """SHA-256 over the files of a checkpoint's weights; errors as `resolve`."""
    source = path if isinstance(path, Source) else resolve(path)
    if source.format == "hf":
        names = hf_files.weight_files(source.path)
    else:
        names = [
            name
            for name in files.beginning_with(source.path + ".")
            # A graph, and when it was made; the memory of a training.
            if not name.endswith((".meta", ".memory"))
        ]
    digests = [files.sha256_of_file(name) for name in names]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def description(source: Source) -> dict[str, str]:
    """What an export says of the weights that it holds."""
    fields = {
        "checkpoint": source.path,
        "why": source.why,
        "sha256": content_digest(source),
    }
    where = hub.origin(source.path)
    return fields | ({"origin": where} if where else {})


def find_config(path: str) -> EncoderConfig:
    """The config beside a checkpoint of any format, or alone in a directory.

    Raises UserError: no config there.
    """
    path = hub.local(path)
    beside = config_file_in(path)
    return _read(beside) if beside else source_config(resolve(path))


def source_config(source: Source) -> EncoderConfig:
    """The config of a resolved checkpoint."""
    if source.format == "hf":
        return hf_checkpoint.read_config(source.folder)
    path = config_file_in(source.folder)
    if path is None:
        raise UserError(
            f"{source.folder or '.'} holds no {config_file_names()}: put the "
            "one of the checkpoint beside it; a training can name it with "
            "--model_config_path, and modeling.convert_checkpoint with --config"
        )
    return _read(path)


def _read(path: str) -> EncoderConfig:
    """The config of weights that are going to be read."""
    config = read_config(path)
    sizes.check(config, path=path)
    return config


def read_arrays(
    source: Source, model: tf_keras.Model
) -> tuple[dict[str, np.ndarray], list[str], list[str]]:
    """(arrays by canonical name, unknown names, stripped names)."""
    if source.format == "hf":
        released = hf_checkpoint.read_weights(
            source.folder, model.config, source.part
        )
        return released.arrays, list(released.left_out), []
    if source.format == "tf1":
        arrays, stripped, _ = tf1_checkpoint.read(source.path, model.config)
        return arrays, [], stripped
    arrays, surplus = native_checkpoint.by_name(
        native_checkpoint.read(source.path),
        variable_paths(model),
        getattr(model, "paths_elsewhere", dict)(),
    )
    return native_checkpoint.with_averages(source.path, arrays), surplus, []


def restore(
    model: tf_keras.Model, path: str | Source, require: str = "all"
) -> RestoreReport:
    """Gives a model the weights of a checkpoint of any format.

    Of what `resolve` takes or gave. `require` "all": every variable must be
    there; "encoder": every variable of the encoder, the head may start fresh. A
    head variable that the checkpoint has by the same name and shape is taken
    then, too; the pooler of one head goes to each of several. Checkpoints
    fine-tuned by the original have no `mask_emb`: models that never use it get
    zeros. The moving averages of the weights are taken where a training
    checkpoint holds them.

    Returns what was restored, left as it was and not used. Raises UserError: a
    required variable is missing or has another shape; nothing is assigned then.
    """
    if require not in ("all", "encoder"):
        raise ValueError(
            f"`require` must be 'all' or 'encoder', received {require!r}"
        )
    source = path if isinstance(path, Source) else resolve(path)
    variables = named_variables(model)
    arrays, surplus, stripped = read_arrays(source, model)
    for name in absent_as_zeros(model):
        if name not in arrays:
            arrays[name] = np.zeros(variables[name].shape, np.float32)
    scope = encoder_of(model).scope
    if source.part and source.format != "hf":  # its reader leaves heads out
        of_heads = [name for name in arrays if not name.startswith(scope)]
        surplus = [*surplus, *of_heads]
        arrays = {n: a for n, a in arrays.items() if n not in of_heads}
    if require == "encoder":
        arrays = _for_each_head(model, arrays)
    problems, values, fresh = [], {}, []
    for name, variable in variables.items():
        required = require == "all" or name.startswith(scope)
        value = arrays.get(name)
        if value is None:
            fresh.append(name)
            if required:
                problems.append(f"`{name}` is missing")
        elif tuple(value.shape) != tuple(variable.shape):
            fresh.append(name)
            if required:
                problems.append(
                    f"`{name}` has shape {list(value.shape)}, wanted "
                    f"{variable.shape.as_list()}"
                )
        else:
            values[name] = value
    if problems:
        headless = not any(n in arrays or n.startswith(scope) for n in fresh)
        raise UserError(_complaint(source, problems, headless))
    for name, value in values.items():
        variables[name].assign(value)
    unused = [name for name in arrays if name not in values] + surplus
    return RestoreReport(
        source, tuple(values), tuple(fresh), tuple(unused), tuple(stripped)
    )


def _for_each_head(model: tf_keras.Model, arrays: dict) -> dict:
    """The arrays of one pooler by the names that several heads have."""
    alone = getattr(model, "names_alone", dict)()
    of_heads = {n: arrays[a] for n, a in alone.items() if a in arrays}
    rest = {n: a for n, a in arrays.items() if n not in alone.values()}
    return of_heads | rest


def _complaint(source: Source, problems: list[str], headless: bool) -> str:
    shown = "; ".join(problems[:5])
    if len(problems) > 5:
        shown += f"; and {len(problems) - 5} more"
    advice = (
        "the encoder is there without this head: train one (--do_train of the "
        "task's command) or give the folder of a model that has it"
        if headless
        else f"check that its {config_file_names()} is the one in use"
    )
    return (
        f"{source.path} ({source.format}) does not fit the model: {shown}; "
        f"{advice}"
    )
