"""A task model -> a SavedModel that takes raw text.

The result is a version folder as TF-Serving wants it:

    OUTPUT_DIR/1/saved_model.pb, variables/     weights and signatures
                 assets/spiece.model, labels.txt
                 assets.extra/tf_serving_warmup_requests
                 signature.json                 inputs, outputs, meanings

It is built under a temporary name, loaded in a fresh process that imports only
TensorFlow and tensorflow_text, compared with the model in memory, and renamed.
"""

import contextlib
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from absl import logging as absl_logging

from common import files, locks
from common.contract.symbols import row_symbols
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.heads import get
from common.process import last_line
from common.vocabularies import vocabulary
from data.text.opening import AnyTokenizer, graph_tokenizer, open_tokenizer
from modeling.checkpoints import restore
from modeling.encoders.registry import require_length
from modeling.models.half_precision import in_bfloat16
from modeling.models.long_document import LongDocument
from serving.export import warmup
from serving.exported import graph_check
from serving.options import ExportOptions
from serving.saved_model import FORMAT_VERSION, SIGNATURE_FILE
from serving.signatures import build as heads
from serving.signatures.sequence import (
    MAX_TEXTS,
    TOKENIZE,
    Context,
    Signature,
    layout_of,
    row_length,
)

# What a server counts the memory of a run from (`serving.web.cost.ModelSize`).
SIZES = ("n_layer", "n_head", "d_model", "d_inner", "vocab_size")
# Of encoders whose tables end: more segments or places are none.
_BOUNDS = ("type_vocab_size", "max_position_embeddings")
# Run as a script: a process that imports nothing of this project.
_RELOAD_CHECK = os.path.join(os.path.dirname(__file__), "reload_check.py")
# How far the reloaded model's answers may be off, relative above 1.
TOLERANCES = {"float32": 2e-5, "mixed_bfloat16": 2e-2}
Arrays = dict[str, dict[str, np.ndarray]]


def export_model(
    output_dir: str,
    model,
    spec: TaskSpec,
    spiece_path: str,
    model_name: str = "xlnet",
    check: bool = True,
    weights: Mapping[str, str] | None = None,
) -> str:
    """Writes a new version folder; nothing is left behind after an error.

    Args:
      output_dir: parent of the version folders 1, 2, ...
      spec: the task; `spec.head` picks the signatures.
      spiece_path: the SentencePiece file that the model was trained with.
      model_name: in the warm-up requests; TF-Serving's `--model_name`.
      weights: what `modeling.checkpoints.restore.description` says of them.

    Raises:
      UserError: unknown head, another SentencePiece file than the task's, rows
        longer than the encoder has places, or the reloaded model answers
        differently.
    """
    check_exportable(spec)
    _check_room(spec)
    require_length(model.config, spec.max_seq_length)
    offline = open_tokenizer(spiece_path, spec.text)
    _check_spiece(offline, model, spec)
    root, signatures = _build_root(model, spec, offline)
    assets = {
        vocabulary.copy_name(spiece_path): offline.vocabulary.content,
        "labels.txt": "".join(f"{x}\n" for x in spec.labels).encode(),
    }
    about = _about(spec, model)
    if weights:
        about["weights"] = dict(weights)
    if check:
        _check_ids(root, signatures, offline)
    return publish(
        output_dir, root, signatures, assets, about, model_name, check
    )


def export_restored(
    output_dir: str,
    build: Callable,
    spec: TaskSpec,
    spiece_path: str,
    source: restore.Source,
    options: ExportOptions,
) -> str:
    """`export_model` of the model that `build` gives and a checkpoint fills."""
    model = build()
    print(restore.restore(model, source, require="all"))
    print(source.line)
    if options.precision != "float32":
        model = in_bfloat16(build, model)
    return export_model(
        output_dir,
        model,
        spec,
        spiece_path,
        options.model_name,
        options.check,
        restore.description(source),
    )


def publish(
    output_dir: str,
    root: tf.Module,
    signatures: Mapping[str, Signature],
    assets: Mapping[str, bytes],
    about: Mapping[str, object],
    model_name: str,
    check: bool,
) -> str:
    """Writes a new version folder of signatures, complete or not at all.

    The root holds all variables and resources that the signatures use; `about`
    is what `signature.json` says besides them. Raises UserError: the reloaded
    model answers differently.
    """
    with locks.held(output_dir):
        locks.remove_leftovers(output_dir, r"\d+")
        final = os.path.join(output_dir, str(_next_version(output_dir)))
        temporary = files.temporary_name(final)
        try:
            arrays = _save(
                root, signatures, assets, about, temporary, model_name
            )
            if check:
                graph_check.check(temporary, graph_check.read(temporary))
                _check_reload(temporary, arrays, about["precision"])
            tf.io.gfile.rename(temporary, final)
        except BaseException:
            if tf.io.gfile.exists(temporary):
                tf.io.gfile.rmtree(temporary)
            raise
        return final


class Root(tf.Module):
    """What is saved: variables, tokenizer resource, assets; no Keras object."""

    def __init__(self, name: str, variables, tokenizer: tf.Module | None):
        super().__init__(name=name)
        self.all_variables = variables
        self.tokenizer = tokenizer


def check_exportable(spec: TaskSpec, wanted: bool = True) -> None:
    """UserError where features are made in ways that the graph lacks."""
    if not wanted:
        return
    if not get(spec.head).signatures:
        raise UserError(
            f"the head {spec.head} cannot be exported: predict with "
            "--do_predict"
        )
    if int(spec.data_options.get("num_texts", 1)) > MAX_TEXTS:
        raise UserError(
            f"a SavedModel takes at most {MAX_TEXTS} texts, found "
            f"{spec.data_options['num_texts']}; train with fewer columns"
        )
    if spec.data_options.get("accumulate_options"):
        raise UserError(
            "--accumulate_options cannot be exported: a SavedModel reads each "
            "option alone; train without it"
        )


def _check_room(spec: TaskSpec) -> None:
    """UserError: rows have no room for a piece beside their symbols."""
    data, beside = spec.data_options, 0
    texts = int(data.get("num_texts", 1))
    if spec.head == "multiple_choice":
        texts = 2  # the passage; the question with an option
    elif spec.head == "ranking" and "passage_stride" in data:
        texts, beside = 2, data["max_query_length"]
    least = row_symbols(layout_of(spec), texts) + 1 + beside  # 1: a piece
    if row_length(spec) < least:
        query = f" (max_query_length: {beside})" if beside else ""
        raise UserError(
            f"--max_seq_length must be at least {least} for rows of the head "
            f"{spec.head}{query}, found {row_length(spec)}"
        )


def _check_spiece(offline: AnyTokenizer, model, spec: TaskSpec) -> None:
    if spec.spiece_sha256 and offline.sha256 != spec.spiece_sha256:
        raise UserError(
            f"{offline.path}: wanted the vocabulary of the training "
            f"run (SHA-256 {spec.spiece_sha256[:12]}...), found "
            f"{offline.sha256[:12]}...; give the copy in the model directory"
        )
    rows = model.config.vocab_size
    vocabulary.check_rows(offline.path, offline.vocab_size, rows, "the model")


def _build_root(model, spec: TaskSpec, offline):
    """(what is saved, its signatures)."""
    tokenizer = graph_tokenizer(offline)
    root = Root("xlnet", list(model.variables), tokenizer)
    if spec.data_options.get("segment_recurrence"):
        model = LongDocument(model, spec.max_seq_length)
    context = Context(model, spec, tokenizer, offline.symbols)
    return root, heads.build(context)


def _save(root, signatures, assets, about, directory, model_name) -> Arrays:
    """Writes the folder; the example requests and their answers."""
    # A `tf.function` that `root` held would be traced once more.
    concrete = {
        name: tf.function(s.function, autograph=False).get_concrete_function(
            **s.inputs
        )
        for name, s in signatures.items()
    }
    with files.temporary_folder() as scratch:
        root.assets = [_asset(scratch, *item) for item in assets.items()]
        with _quiet():
            tf.saved_model.save(
                root,
                directory,
                concrete,
                tf.saved_model.SaveOptions(experimental_custom_gradients=False),
            )
    requests = {
        name: {key: _array(s.inputs[key], v) for key, v in s.example.items()}
        for name, s in signatures.items()
    }
    warmup.write(directory, model_name, requests)
    description = dict(about) | {"signatures": _describe(signatures, concrete)}
    files.write_json(os.path.join(directory, SIGNATURE_FILE), description)
    arrays = _answers(concrete, requests)
    if about["precision"] == "float32":
        # The numbers are also those of the model without a graph. What they
        # decide is the graph's: one rounding can decide between equals.
        model = {name: s.function for name, s in signatures.items()}
        outputs = _answers(model, requests)["out"]
        arrays["out"] |= {
            k: v for k, v in outputs.items() if v.dtype.kind == "f"
        }
    return arrays


@contextlib.contextmanager
def _quiet():
    """Keeps TensorFlow's notes about renamed inputs out of the log."""
    logger = absl_logging.get_absl_logger()
    before = [logger, tf.get_logger()]
    levels = [x.level for x in before]
    for x in before:
        x.setLevel("WARNING")
    try:
        yield
    finally:
        for x, level in zip(before, levels, strict=True):
            x.setLevel(level)


def _asset(folder: str, name: str, content: bytes) -> tf.saved_model.Asset:
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(content)
    return tf.saved_model.Asset(path)


def _array(spec: tf.TensorSpec, value) -> np.ndarray:
    """A request value as NumPy; strings as UTF-8 bytes."""
    array = tf.constant(value, spec.dtype)
    if not spec.is_compatible_with(array):
        raise ValueError(f"`{spec.name}`: {array.shape} does not fit {spec}")
    return array.numpy()


def _answers(functions: Mapping, requests: Mapping) -> Arrays:
    """`in/...` and `out/...` arrays of the model in memory."""
    arrays: Arrays = {"in": {}, "out": {}}
    for name, inputs in requests.items():
        tensors = {k: tf.constant(v) for k, v in inputs.items()}
        outputs = functions[name](**tensors)
        for key, value in inputs.items():
            arrays["in"][f"{name}/{key}"] = value
        for key, value in outputs.items():
            arrays["out"][f"{name}/{key}"] = value.numpy()
    return arrays


def _about(spec: TaskSpec, model) -> dict:
    config = model.config
    bounds = {name: getattr(config, name, None) for name in _BOUNDS}
    return {
        "precision": model.dtype_policy.name,
        "format_version": FORMAT_VERSION,
        "task": spec.task_name,
        "head": spec.head,
        "labels": list(spec.labels),
        "max_seq_length": spec.max_seq_length,
        "data_options": spec.data_options,
        "segments": max(1, spec.data_options.get("segment_recurrence", 0)),
        "uncased": spec.text.uncased,
        "text_settings": spec.text.as_dict(),
        "vocab_size": config.vocab_size,
        "model_type": config.model_type,
        "sizes": {name: getattr(config, name) for name in SIZES},
        **{name: n for name, n in bounds.items() if n is not None},
        "spiece_sha256": spec.spiece_sha256,
        "unicode_version": unicodedata.unidata_version,
    }


def _describe(signatures, concrete) -> dict:
    def tensor(value) -> dict:
        return {"dtype": value.dtype.name, "shape": list(value.shape)}

    return {
        name: {
            "meaning": s.meaning,
            "inputs": {k: tensor(v) for k, v in s.inputs.items()},
            "outputs": {
                k: tensor(v)
                for k, v in concrete[name].structured_outputs.items()
            },
        }
        for name, s in signatures.items()
    }


def _check_ids(root: Root, signatures: Mapping, offline: AnyTokenizer) -> None:
    """The graph's ids are the offline tokenizer's on the example texts."""
    if TOKENIZE not in signatures:
        return
    texts = list(signatures[TOKENIZE].example["text"])
    graph_ids = root.tokenizer.tokenize(tf.constant(texts)).to_list()
    wanted = [offline.encode(text) for text in texts]
    # Two releases of SentencePiece may order the pieces of an exact tie ("0 00"
    # or "00 0") differently; the pieces themselves must agree.
    if list(map(sorted, graph_ids)) != list(map(sorted, wanted)):
        raise UserError(
            f"{offline.path}: the ids in the graph {graph_ids} are not the offline "
            f"tokenizer's {wanted}; this SentencePiece file cannot be exported"
        )


def _check_reload(directory: str, arrays: Arrays, precision: str) -> None:
    with files.temporary_folder() as scratch:
        path = os.path.join(scratch, "requests.npz")
        flat = {
            f"{kind}/{name}": _savable(value)
            for kind, values in arrays.items()
            for name, value in values.items()
        }
        np.savez(path, **flat)
        if files.is_remote(directory):
            folder = files.plain_folder(directory)
        else:
            # TensorFlow would take `[ * ?` of its own path for a pattern.
            folder = os.path.join(scratch, "model")
            os.symlink(os.path.abspath(directory), folder)
        command = [sys.executable, _RELOAD_CHECK, folder]
        command += [path, str(TOLERANCES[precision])]
        # Away from the project, so that none of it can be imported.
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, check=False
        )
    if done.returncode < 0:
        how = last_line.of(done.returncode, done.stdout + done.stderr)
        raise UserError(
            f"{directory}: nothing was exported: its check was {how}"
        )
    if done.returncode:
        # Beside what differs TensorFlow's own warnings say nothing.
        lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
        raise UserError(
            f"{directory}: the reloaded SavedModel differs from the model in "
            f"memory, nothing was exported: {'; '.join(lines[-3:])}"
        )


def _savable(value: np.ndarray) -> np.ndarray:
    """Byte strings as fixed-width arrays, which need no pickling.

    NumPy drops zero bytes at the end, so each gets one byte more.
    """
    if value.dtype != object:
        return value
    ended = np.array([*(v + b"." for v in value.reshape(-1)), b"."])
    return ended[:-1].reshape(value.shape)


def _next_version(output_dir: str) -> int:
    tf.io.gfile.makedirs(output_dir)
    names = (n.rstrip("/") for n in tf.io.gfile.listdir(output_dir))
    return 1 + max((int(n) for n in names if n.isdecimal()), default=0)
