"""Between the original's checkpoints, Hugging Face's and ours, loss-free.

A `state_dict` of a PyTorch release is only read.

Every variable is consumed, or left out for a reason that the report names.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common import files
from common.errors import UserError
from common.heads import ENCODER
from common.references import resolve
from common.vocabularies import vocabulary
from common.weights import hub
from modeling.checkpoints import hf as hf_checkpoint
from modeling.checkpoints import hf_files, tiling
from modeling.checkpoints import native as native_checkpoint
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import tf1 as tf1_checkpoint
from modeling.checkpoints.names import (
    absent_as_zeros,
    encoder_of,
    named_variables,
    variable_paths,
)
from modeling.checkpoints.restore import Source
from modeling.command_options import ConvertOptions
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    config_file_in,
    read_config,
    spec_of,
    write_config,
)
from modeling.heads import table as heads

# What stands beside a tokenizer elsewhere and says how it is called.
_BESIDE = (
    vocabulary.HF_CONFIG,
    "special_tokens_map.json",
    "added_tokens.json",
)
_WORDS = "vocab.txt"  # of a folder whose rules are in another file
# Key of the configuration's `extra`: task names in the original's scopes.
TASKS = "task_names"


@dataclasses.dataclass(frozen=True)
class Weights:
    """A checkpoint in memory."""

    head: str  # as `heads.find` gives it
    config: EncoderConfig
    model: tf.Module  # with the weights in its variables
    # "classification" or "regression" -> the original's task name
    tasks: dict[str, str]
    notes: list[str]  # lines for the report


# (folder with a vocabulary, config, head) -> ids of symbols by name, lines
# for the report; writes what a Hugging Face tokenizer needs.
TextWriter = Callable[
    [str, EncoderConfig, str], tuple[dict[str, int], list[str]]
]
# (new native folder, head) -> ; writes the task of the input beside the head.
TaskWriter = Callable[[str, str], None]


def convert(
    options: ConvertOptions,
    write_text: TextWriter | None = None,
    write_task: TaskWriter | None = None,
) -> list[str]:
    """Converts a checkpoint and returns the report, a line per variable.

    Args:
      write_text: for "hf"; None = the folder's tokenizer stays as it is.
      write_task: for "native"; None = the folder gets no task.

    Raises:
      UserError: wrong format, a variable missing, surplus or misshapen, or
        something that the other format cannot hold; nothing is written then.
    """
    if options.from_format == "torch":
        folder = os.path.dirname(options.input)
        source = Source("torch", options.input, folder)
    else:
        source = checkpoints.resolve(options.input, options.checkpoint_choice)
    if source.format != options.from_format:
        raise UserError(
            f"{options.input} is a {source.format} checkpoint: wanted "
            f"--from_format={source.format}, found {options.from_format}"
        )
    if options.config:
        config = read_config(options.config)
    else:
        config = checkpoints.source_config(source)
    weights = read(source, config, options.head or None)
    if options.grow_to:
        weights = _grown(weights, read_config(options.grow_to))
    lines = [source.line, *weights.notes]
    lines += write(
        weights,
        options.to_format,
        options.output,
        source,
        options.labels,
        options.task,
        options.head_options,
        write_text,
        write_task,
    )
    return lines


def _grown(weights: Weights, config: EncoderConfig) -> Weights:
    """The same kind of model in another size, see `tiling`."""
    arrays = {n: v.numpy() for n, v in named_variables(weights.model).items()}
    model = heads.build(weights.head, config, _shapes(arrays))
    fresh = tiling.grow(arrays, weights.config, model)
    notes = [*weights.notes, f"tiled from {weights.config.model_type}"]
    notes += [f"no such layer before, first values: {name}" for name in fresh]
    return Weights(weights.head, config, model, weights.tasks, notes)


def read(source: Source, config: EncoderConfig, head: str | None) -> Weights:
    """Reads a checkpoint of any format into a model of its kind."""
    notes, tasks = [], dict(config.extra.get(TASKS, {}))
    if source.format == "native":
        model, head, arrays, notes = _read_native(source, config, head)
    elif source.format == "torch":
        names = _state_dict_names(source, config)
        config = names.adapt(config)
        arrays = names.from_state_dict(
            hf_files.load_file(source.path), config, source.path
        )
        head = heads.find(arrays, source.path, head)
        model = heads.build(head, config, _shapes(arrays))
    elif source.format == "tf1":
        arrays, stripped, tasks = tf1_checkpoint.read(source.path, config)
        notes += [f"left out, optimizer or counter: {n}" for n in stripped]
        explicit = head is not None
        head = heads.find(arrays, source.path, head)
        model = heads.build(head, config, _shapes(arrays))
        if explicit:
            arrays, other = _split(arrays, model)
            notes += [f"left out, another head: {name}" for name in other]
    else:
        part = ENCODER if head == ENCODER else ""
        weights = hf_checkpoint.read_weights(source.folder, config, part)
        if head not in (None, weights.head):
            raise UserError(
                f"{source.path}: wanted the head `{head}`, found `{weights.head}`"
            )
        arrays, head = weights.arrays, weights.head
        notes += [f"left out, another head: {n}" for n in weights.left_out]
        more = hf_checkpoint.head_options(source.folder, head)
        notes += [f"its {name}: {value}" for name, value in more.items()]
        model = heads.build(head, config, _shapes(arrays), **more)
        if head == ENCODER:  # BERT's comes with a pooler
            arrays, other = _split(arrays, model)
            notes += [f"left out, another head: {name}" for name in other]
    variables = named_variables(model)
    for name in absent_as_zeros(model):
        if name not in arrays:
            arrays[name] = np.zeros(variables[name].shape, np.float32)
            notes.append(f"not in the input, zeros: {name}")
    _check(arrays, variables, source)
    for name, variable in variables.items():
        variable.assign(arrays[name])
    return Weights(head, config, model, tasks, notes)


def _state_dict_names(source: Source, config: EncoderConfig):
    """The module that reads the `state_dict` of an encoder's release."""
    name = spec_of(config.model_type).state_dict
    if not name:
        raise UserError(
            f"{source.path}: no PyTorch release of {config.model_type!r} is "
            "known; take another format"
        )
    return resolve(name)


def _read_native(source, config, head):
    stored = native_checkpoint.read(source.path)
    shapes = {
        alias.removeprefix("encoder/"): list(value.shape)
        for aliases, value in stored.items()
        for alias in aliases
    }
    head = heads.find(shapes, source.path, head)
    model = heads.build(head, config, shapes)
    arrays, surplus = native_checkpoint.by_name(stored, variable_paths(model))
    arrays = native_checkpoint.with_averages(source.path, arrays)
    other = set()
    if head == ENCODER:
        other = native_checkpoint.beside_encoder(stored) & set(surplus)
    for path in surplus:
        if path not in other:
            arrays[path] = np.zeros(0)  # reported as surplus, by its path
    notes = [f"left out, another head: {path}" for path in sorted(other)]
    return model, head, arrays, notes


def _shapes(arrays):
    return {name: list(value.shape) for name, value in arrays.items()}


def _split(arrays, model):
    """(encoder and this head, names of other heads)."""
    kept, other = {}, []
    wanted, scope = named_variables(model), encoder_of(model).scope
    for name, value in arrays.items():
        if name in wanted or name.startswith(scope):
            kept[name] = value
        else:
            other.append(name)
    return kept, other


def _check(arrays, variables, source):
    problems = [f"`{n}` is missing" for n in variables if n not in arrays]
    problems += [
        f"`{n}` belongs to no variable" for n in arrays if n not in variables
    ]
    problems += [
        f"`{n}` has shape {list(arrays[n].shape)}, wanted {v.shape.as_list()}"
        for n, v in variables.items()
        if n in arrays and tuple(arrays[n].shape) != tuple(v.shape)
    ]
    if problems:
        shown = "; ".join(problems[:5])
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise UserError(
            f"{source.path} does not fit its config: {shown}{more}; give the "
            "right --config, or --head where there are several"
        )


def write(
    weights: Weights,
    to_format: str,
    output: str,
    source: Source,
    labels: Sequence[str] = (),
    task: str = "",
    head_options: Mapping[str, Any] | None = None,
    write_text: TextWriter | None = None,
    write_task: TaskWriter | None = None,
) -> list[str]:
    """Writes a model in a format; returns report lines.

    Args:
      to_format: "native", "hf" or "tf1".
      output: see `ConvertOptions`.

    Raises UserError: the output exists, or another configuration stands beside
    it.
    """
    config, extra = weights.config, dict(weights.config.extra)
    arrays = {
        name: variable.numpy()
        for name, variable in named_variables(weights.model).items()
    }
    if to_format == "native":
        if weights.tasks:
            extra[TASKS] = weights.tasks
        native_checkpoint.write(
            output,
            weights.model,
            config.replace(extra=extra),
            functools.partial(
                _copy_beside, source, weights.head, write_task=write_task
            ),
        )
        return _lines(arrays) + [f"written: {output}"]
    if to_format == "hf":
        with native_checkpoint.new_folder(output) as folder:
            hf_checkpoint.write_weights(folder, arrays, config, weights.head)
            _copy_vocabulary(source.folder, folder)
            _copy_sentence_rule(source.folder, folder)
            symbols, said = {}, []
            if write_text:
                symbols, said = write_text(folder, config, weights.head)
            notes = hf_checkpoint.write_config(
                folder,
                config,
                weights.head,
                arrays,
                labels,
                task,
                head_options,
                symbols,
            )
        return _lines(arrays) + notes + said + [f"written: {output}"]
    return _write_tf1(weights, arrays, output, source)


def _write_tf1(weights, arrays, output, source) -> list[str]:
    notes = []
    for name in absent_as_zeros(weights.model):
        if not arrays[name].any():
            del arrays[name]
            notes.append(f"left out, zeros (never trained): {name}")
    config, folder = _without_tasks(weights.config), os.path.dirname(output)
    beside = config_file_in(folder)
    if beside and _without_tasks(read_config(beside)) != config:
        raise UserError(
            f"{beside} is another configuration than that of "
            f"--output={output}: give a prefix in another folder"
        )

    def write_beside():
        if not beside:
            write_config(folder, config)
        _copy_vocabulary(source.folder, folder)

    tf1_checkpoint.write(output, arrays, weights.tasks, config, write_beside)
    return _lines(arrays) + notes + [f"written: {output}"]


def _without_tasks(config: EncoderConfig) -> EncoderConfig:
    extra = {k: v for k, v in config.extra.items() if k != TASKS}
    return config.replace(extra=extra)


def _lines(arrays) -> list[str]:
    return [
        f"{name} {list(value.shape)} {value.dtype}"
        for name, value in arrays.items()
    ]


def _copy_beside(
    source: Source, head: str, folder: str, write_task: TaskWriter | None
) -> None:
    _copy_vocabulary(source.folder, folder)
    _copy_sentence_rule(source.folder, folder)
    if write_task:
        write_task(folder, head)


def _copy_sentence_rule(from_folder: str, to_folder: str) -> None:
    """What makes vectors of texts, where a folder says it."""
    if not tf.io.gfile.isdir(from_folder):
        return
    for part in sorted(files.list_names(from_folder)):
        for name in (part, f"{part}/config.json"):
            path = os.path.join(from_folder, name)
            if hub.SENTENCES.fullmatch(name) and tf.io.gfile.exists(path):
                own = os.path.join(to_folder, name)
                tf.io.gfile.makedirs(os.path.dirname(own))
                tf.io.gfile.copy(path, own, overwrite=True)


def _copy_vocabulary(from_folder: str, to_folder: str) -> None:
    """The vocabulary with its text settings, where there is one."""
    symbols = os.path.join(from_folder, vocabulary.SYMBOLS_NAME)
    own = os.path.join(to_folder, vocabulary.SYMBOLS_NAME)
    if tf.io.gfile.exists(symbols) and not tf.io.gfile.exists(own):
        with files.atomic_open(own) as f:
            f.write(files.read_bytes(symbols))
    source = vocabulary.find(from_folder)
    if source is None or vocabulary.find(to_folder):
        return
    copied = vocabulary.read(source)
    settings = vocabulary.settle(copied, None, from_folder)
    # Where the vocabulary is, all is there: a killed process copies it again.
    for name in _BESIDE:
        _copy_file(name, from_folder, to_folder)
    vocabulary.copy(copied, settings, to_folder)
    _copy_file(_WORDS, from_folder, to_folder)


def _copy_file(name: str, from_folder: str, to_folder: str) -> None:
    """Copies a file that may be there."""
    path = os.path.join(from_folder, name)
    if tf.io.gfile.exists(path):
        own = os.path.join(to_folder, name)
        tf.io.gfile.copy(path, own, overwrite=True)
