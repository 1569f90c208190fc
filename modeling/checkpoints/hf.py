"""Hugging Face folders: `config.json` and `model.safetensors`, without torch.

What belongs to an encoder is in its `names.HuggingFace`, a
`modeling.encoders.hf_names.HuggingFaceNames`. Their dense kernels are
transposed; where everything else has another shape than ours it says so.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common import files, heads
from common.errors import UserError
from common.references import resolve
from modeling.checkpoints import hf_files
from modeling.checkpoints.hf_files import WEIGHTS
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.hf_names import HuggingFaceNames, Summary
from modeling.encoders.registry import spec_of

CONFIG = "config.json"
# Heads that read one vector of a sequence.
_POOLED = ("classification", "regression", "multiple_choice")
_MULTI_LABEL = "multi_label_classification"


def _family(model_type: str) -> HuggingFaceNames:
    reference = spec_of(model_type).hugging_face
    if not reference:
        raise UserError(
            f"{model_type} has no form in Hugging Face folders; use the native "
            "format"
        )
    return resolve(reference)()


def read_config(folder: str) -> EncoderConfig:
    """`config.json` as ours; their other keys stay in `extra["hf"]`.

    Raises:
      UserError: missing, of no encoder of ours, or with a setting we have not.
    """
    theirs = _read_json(folder)
    path = os.path.join(folder, CONFIG)
    try:
        family = _family(theirs.get("model_type"))
    except UserError as e:
        raise UserError(f"{path}: {e}") from e
    return family.read_config(theirs, path)


def write_config(
    folder: str,
    config: EncoderConfig,
    head: str,
    arrays: dict[str, np.ndarray],
    names: Sequence[str] = (),
    task: str = "",
    options: Mapping[str, Any] | None = None,
    symbols: Mapping[str, int] | None = None,
) -> list[str]:
    """Writes `config.json`; returns lines for the report.

    Args:
      folder: existing.
      config: ours.
      head: as `find_head` gives it.
      arrays: weights by canonical name, which tell the number of labels.
      names: of the labels, in order; () = those that the configuration has,
        where they are as many, else `LABEL_0`, ...
      task: the head by its task.json; "" = there is none.
      options: of that head; None = not known.
      symbols: ids by name; None = no vocabulary is known.

    Raises:
      UserError: there are more or fewer names than outputs, or their class
        would give other numbers.
    """
    family = _family(config.model_type)
    theirs = family.write_config(config)
    ours = bool(task) or "architectures" not in theirs
    theirs["architectures"] = [family.class_name(head, arrays)]
    outputs = _outputs(head, arrays)
    labels = len(theirs.get("id2label", {})) or theirs.get("num_labels", 2)
    if outputs is not None and (names or labels != outputs):
        names = names or [f"LABEL_{i}" for i in range(outputs)]
        if len(names) != outputs:
            raise UserError(
                f"wanted names of {outputs} outputs, found {len(names)}: "
                f"{', '.join(names)}"
            )
        theirs["id2label"] = {str(i): name for i, name in enumerate(names)}
        theirs["label2id"] = {name: i for i, name in enumerate(names)}
    if head == "classification" and task == "multi_label":
        theirs["problem_type"] = _MULTI_LABEL
    elif task and theirs.get("problem_type") == _MULTI_LABEL:
        del theirs["problem_type"]  # of the model that it began with
    family.write_token_ids(theirs, symbols or {})
    if ours and head not in (heads.ENCODER, "pretraining"):
        family.write_task(theirs)
        if head == "regression":
            theirs["problem_type"] = "regression"
    notes = []
    if head in _POOLED:
        options = options or {}
        summary = Summary(
            options.get("summary_type"),
            family.projection in arrays,
            options.get("pooling", ""),
        )
        notes = family.write_summary(theirs, summary)
    files.write_json(os.path.join(folder, CONFIG), theirs)
    return notes


def head_options(folder: str, head: str) -> dict[str, Any]:
    """Options of a head that `config.json` tells and weights do not.

    Raises:
      UserError: a summary that we have not.
    """
    if head not in _POOLED:
        return {}
    theirs = _read_json(folder)
    path = os.path.join(folder, CONFIG)
    return _family(theirs.get("model_type")).read_summary(theirs, path)


def name_table(config: EncoderConfig, head: str) -> dict[str, tuple[str, bool]]:
    """Canonical name -> (their name, transposed) for one head."""
    family = _family(config.model_type)
    return family.names(config) | family.head_names(head)


def find_head(family: HuggingFaceNames, theirs, config: dict[str, Any]) -> str:
    """The head of a set of their names.

    Sequence classification, regression and multiple choice have the same
    names: the configuration or, at last, the number of outputs tells.
    """
    present = []
    for row in heads.with_weights().values():
        names = family.head_names(row.name)
        if names and names[row.marker[0]][0] in theirs:
            present.append(row)
    if not present:
        return heads.ENCODER
    classes = config.get("architectures") or []
    named = [
        row
        for row in present
        if any(
            family.class_prefix + kind in classes
            for kind in family.class_kinds(row.name)
        )
    ]
    row = (named or present)[0]
    if row.name == "classification":
        logit = family.head_names(row.name)[row.marker[0]][0]
        one = theirs[logit].shape[0] == 1
        if one or config.get("problem_type") == "regression":
            return "regression"
    return row.name


def read_weights(
    folder: str, config: EncoderConfig
) -> tuple[dict[str, np.ndarray], str]:
    """The tensors, in one file or in shards, by canonical name; their head.

    Raises:
      UserError: unreadable, a tensor that no name takes, or untied weights
        where the model ties them.
    """
    theirs, path = hf_files.load_tensors(folder)
    family = _family(config.model_type)
    theirs = {
        family.old_names(name): value
        for name, value in theirs.items()
        if not name.endswith(family.buffers or ("\0",))
    }
    if theirs and not any(name.startswith(family.scope) for name in theirs):
        theirs = {family.scope + name: v for name, v in theirs.items()}
    head = find_head(family, theirs, _read_json(folder))
    arrays, left = {}, dict(theirs)
    for ours, (name, flip) in name_table(config, head).items():
        if name in left:
            value = left.pop(name)
            arrays[ours] = np.ascontiguousarray(value.T) if flip else value
    for copy, original in family.ties:
        tied = left.pop(copy, None)
        if tied is None or original not in theirs:
            continue
        if not np.array_equal(tied, theirs[original]):
            raise UserError(
                f"{path}: `{copy}` differs from `{original}`: only tied "
                "language models are supported"
            )
    if left:
        raise UserError(
            f"{path}: no variable takes {sorted(left)[:5]} "
            f"({len(left)} tensors in all)"
        )
    family.from_theirs(arrays, config, path)
    return arrays, head


def write_weights(
    folder: str,
    arrays: dict[str, np.ndarray],
    config: EncoderConfig,
    head: str,
) -> None:
    """Writes `model.safetensors`, every array consumed.

    Raises:
      UserError: an array that their class has no place for.
    """
    from safetensors.numpy import save_file

    theirs = to_theirs(arrays, config, head)
    with files.atomic_path(os.path.join(folder, WEIGHTS)) as path:
        save_file(theirs, path, {"format": "pt"})


def to_theirs(
    arrays: dict[str, np.ndarray], config: EncoderConfig, head: str
) -> dict[str, np.ndarray]:
    """Arrays by canonical name -> by their names and in their shapes, float32.

    Raises:
      UserError: an array that their class has no place for.
    """
    family = _family(config.model_type)
    arrays = dict(arrays)
    family.to_theirs(arrays, config)
    table = name_table(config, head)
    surplus = sorted(set(arrays) - set(table))
    if surplus:
        raise UserError(
            f"{family.class_name(head)} has no place for {surplus[:5]} "
            f"({len(surplus)} variables)"
        )
    theirs = {}
    for ours, value in arrays.items():
        name, flip = table[ours]
        if head == heads.ENCODER:
            name = name.removeprefix(family.scope)
        value = np.asarray(value, np.float32)
        theirs[name] = np.ascontiguousarray(value.T if flip else value)
    return theirs


def _read_json(folder: str) -> dict[str, Any]:
    return files.read_json_object(
        os.path.join(folder, CONFIG), "wanted a Hugging Face folder"
    )


def _outputs(head: str, arrays: dict[str, np.ndarray]) -> int | None:
    """Number of labels, None for heads without."""
    row = heads.HEADS.get(head)
    if row is None or not row.counts_outputs:
        return None
    return arrays[row.marker[0]].shape[-1]
