"""Hugging Face folders: `config.json` and weights, without torch.

What belongs to an encoder is in its `names.HuggingFace`, a
`modeling.encoders.hf_names.HuggingFaceNames`. Their dense kernels are
transposed; where everything else has another shape than ours it says so.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from common import files, heads
from common.errors import UserError
from common.references import resolve
from common.weights.released_weights import WEIGHTS
from modeling.checkpoints import hf_files
from modeling.encoders import sizes
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.hf_names import HuggingFaceNames, Summary
from modeling.encoders.registry import spec_of

CONFIG = "config.json"
# Heads that read one vector of a sequence.
_POOLED = ("classification", "regression", "multiple_choice")
MULTI_LABEL = "multi_label_classification"
_REGRESSION = "regression"
_SINGLE_LABEL = "single_label_classification"
# Keys of the type in which their classes load the weights.
_TYPES = ("dtype", "torch_dtype")
_ENCODER_ALONE = (
    "--head=encoder (serving.export: --task=embedding) leaves the head out"
)
# Keys of a span head's beams, which are options here.
_BEAMS = ("start_n_top", "end_n_top")
# Keys that say how many labels there are.
_LABELS = ("id2label", "label2id", "num_labels")
_OF_HEAD = (*_LABELS, "problem_type", "architectures")


def family_of(model_type: str) -> HuggingFaceNames:
    """An encoder's names there; UserError where it has none."""
    reference = spec_of(model_type).hugging_face
    if not reference:
        raise UserError(
            f"{model_type} has no form in Hugging Face folders; use the native "
            "format"
        )
    return resolve(reference)()


def read_config(folder: str) -> EncoderConfig:
    """`config.json` as ours; their other keys stay in `extra["hf"]`.

    Raises UserError: missing, of no encoder of ours, with a setting we have
    not, or of weights that do not fit into memory.
    """
    theirs = _read_json(folder)
    path = os.path.join(folder, CONFIG)
    try:
        family = family_of(theirs.get("model_type"))
    except UserError as e:
        raise UserError(f"{path}: {e}") from e
    config = family.read_config(theirs, path)
    sizes.check(config, path=path)  # before names of all layers are made
    return config


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
    family = family_of(config.model_type)
    theirs = family.write_config(config)
    ours = bool(task) or "architectures" not in theirs
    theirs["architectures"] = [family.class_name(head, arrays)]
    _write_form(theirs)
    _write_labels(theirs, _outputs(head, arrays), names)
    family.write_token_ids(theirs, symbols or {})
    if ours:
        _write_problem(theirs, head, task, _outputs(head, arrays))
    if ours and head not in (heads.ENCODER, "pretraining"):
        family.write_task(theirs)
    notes, options = [], options or {}
    if head == "span":
        # Where their class has no beams nothing reads them.
        theirs |= {name: options[name] for name in _BEAMS if name in options}
    if head in _POOLED:
        summary = Summary(
            options.get("summary_type"),
            family.projection in arrays,
            options.get("pooling", ""),
        )
        notes = family.write_summary(theirs, summary)
    files.write_json(os.path.join(folder, CONFIG), theirs)
    return notes


def _write_form(theirs: dict[str, Any]) -> None:
    """What a file that was read may say of its weights, and not of ours.

    These are float32 and tied: with another type their classes would round
    them, and without ties draw the matrix of the logits.
    """
    for key in _TYPES:
        if key in theirs:
            theirs[key] = "float32"
    if "tie_word_embeddings" in theirs:
        theirs["tie_word_embeddings"] = True


def _write_labels(
    theirs: dict[str, Any], outputs: int | None, names: Sequence[str]
) -> None:
    """Names of the outputs; UserError where they are more or fewer.

    Classes whose outputs are fixed count labels, too: two, as without a key.
    """
    labels = len(theirs.get("id2label") or ()) or theirs.get("num_labels", 2)
    if outputs is None:
        if labels != 2:
            for key in _LABELS:
                theirs.pop(key, None)
        return
    if not names and labels == outputs:
        return
    names = names or [f"LABEL_{i}" for i in range(outputs)]
    if len(names) != outputs:
        raise UserError(
            f"wanted names of {outputs} outputs, found {len(names)}: "
            f"{', '.join(names)}"
        )
    theirs.pop("num_labels", None)
    theirs["id2label"] = {str(i): name for i, name in enumerate(names)}
    theirs["label2id"] = {name: i for i, name in enumerate(names)}


def _write_problem(
    theirs: dict[str, Any], head: str, task: str, outputs: int | None
) -> None:
    """What the outputs are, not what those of the model before them were.

    Raises UserError: one class, which transformers 5 does not load.
    """
    if head == "regression":
        theirs["problem_type"] = _REGRESSION
    elif head == "classification" and task == "multi_label":
        theirs["problem_type"] = MULTI_LABEL
    elif head == "classification" and outputs == 1:
        # Without a key theirs takes one output for a regression.
        raise UserError(
            "Hugging Face's classifiers have two classes or more, found one: "
            "they refuse to load it; use --to_format=native"
        )
    elif theirs.get("problem_type") != _SINGLE_LABEL:
        theirs.pop("problem_type", None)


def without_head(config: EncoderConfig) -> EncoderConfig:
    """The same encoder, without what its file said of a head.

    A new head has other labels. Where its task is lost, as in a TF1
    checkpoint, the old ones would count as its own.
    """
    extra = dict(config.extra)
    inner = extra.get("hf")  # XLNet's keys of theirs
    if isinstance(inner, dict):
        extra["hf"] = {k: v for k, v in inner.items() if k not in _OF_HEAD}
    kept = {k: v for k, v in extra.items() if k not in _OF_HEAD}
    return config.replace(extra=kept)


def is_regression(theirs: Mapping[str, Any], outputs: int) -> bool:
    """Whether a sequence classifier of theirs gives values, not classes."""
    kind = theirs.get("problem_type")
    return kind == _REGRESSION or (kind is None and outputs == 1)


def head_options(folder: str, head: str) -> dict[str, Any]:
    """Options of a head that `config.json` tells and weights do not.

    Raises UserError: a summary that we have not.
    """
    if head not in _POOLED:
        return {}
    theirs = _read_json(folder)
    path = os.path.join(folder, CONFIG)
    return family_of(theirs.get("model_type")).read_summary(theirs, path)


def name_table(config: EncoderConfig, head: str) -> dict[str, tuple[str, bool]]:
    """Canonical name -> (their name, transposed) for one head."""
    family = family_of(config.model_type)
    return family.names(config) | family.head_names(head)


class Found(NamedTuple):
    """What a folder holds."""

    arrays: dict[str, np.ndarray]
    head: str
    left_out: tuple[str, ...] = ()  # names of tensors that were not wanted


def head_of_classes(
    family: HuggingFaceNames, classes: Sequence[str], among: Sequence[str]
) -> str | None:
    """The first of some heads that one of their classes has, or None."""
    for name in among:
        kinds = family.class_kinds(name)
        if any(family.class_prefix + kind in classes for kind in kinds):
            return name
    return None


def find_head(family: HuggingFaceNames, theirs, config: dict[str, Any]) -> str:
    """The head of a set of their names.

    Heads may have the same names there: the configuration's class tells. A
    class that is not known is no head of ours, whatever its names are.
    """
    present = []
    for row in heads.with_weights().values():
        names = family.head_names(row.name)
        marks = [names[m][0] for m in row.marker if m in names]
        if any(mark in theirs for mark in marks):
            present.append(row.name)
    classes = config.get("architectures") or []
    head = head_of_classes(family, classes, present)
    if head is None and _knows_none(family, classes):
        head = (present or [heads.ENCODER])[0]
    if head == "classification":
        marker = heads.HEADS[head].marker[0]
        outputs = theirs[family.head_names(head)[marker][0]].shape[0]
        if is_regression(config, outputs):
            return "regression"
    return head or heads.ENCODER


def _knows_none(family: HuggingFaceNames, classes: Sequence[str]) -> bool:
    """Whether the classes say nothing of the head: an encoder's, or none."""
    known = [heads.ENCODER, *heads.with_weights()]
    own = [name for name in classes if name.startswith(family.class_prefix)]
    return not own or bool(head_of_classes(family, own, known))


def read_weights(folder: str, config: EncoderConfig, part: str = "") -> Found:
    """The tensors, in one file or in shards, by canonical name.

    A pooler that the head does not read is left out. Raises UserError:
    unreadable, a tensor that no name takes, or untied weights where the model
    ties them.
    """
    theirs, path = hf_files.load_tensors(folder)
    family = family_of(config.model_type)
    theirs = {
        family.old_names(name): value
        for name, value in theirs.items()
        if not name.endswith(family.buffers or ("\0",))
    }
    if theirs and not any(name.startswith(family.scope) for name in theirs):
        theirs = {family.scope + name: v for name, v in theirs.items()}
    described = _read_json(folder)
    head = part or find_head(family, theirs, described)
    arrays, left = {}, dict(theirs)
    for ours, (name, flip) in name_table(config, head).items():
        if name in left:
            value = left.pop(name)
            arrays[ours] = np.ascontiguousarray(value.T) if flip else value
    if not part:
        _drop_ties(family, theirs, left, path)
    spare = {name for name, _ in family.head_names(heads.ENCODER).values()}
    spare |= {n for n in left if part and not n.startswith(family.scope)}
    left_out = sorted(spare & set(left))
    for name in left_out:
        del left[name]
    if left:
        raise UserError(_not_taken(path, described, head, sorted(left), family))
    family.from_theirs(arrays, config, path)
    return Found(arrays, head, tuple(left_out))


def _drop_ties(family: HuggingFaceNames, theirs, left, path: str) -> None:
    """Takes stored copies out of `left`, which must be equal."""
    for copy, original in family.ties:
        tied = left.pop(copy, None)
        if tied is None or original not in theirs:
            continue
        if not np.array_equal(tied, theirs[original]):
            raise UserError(
                f"{path}: `{copy}` differs from `{original}`: only tied "
                f"language models are supported; {_ENCODER_ALONE}"
            )


def _not_taken(
    path: str, described: dict, head: str, left: list[str], family
) -> str:
    """What to say of tensors that no name takes."""
    line = f"{path}: no variable takes {left[:5]} ({len(left)} tensors in all)"
    if any(name.startswith(family.scope) for name in left):
        return line
    classes = ", ".join(map(str, described.get("architectures") or ["none"]))
    return (
        f"{line}: its class is {classes}, the head {head} was looked for; "
        + _ENCODER_ALONE
    )


def write_weights(
    folder: str,
    arrays: dict[str, np.ndarray],
    config: EncoderConfig,
    head: str,
) -> None:
    """Writes `model.safetensors` of all arrays; UserError as `to_theirs`."""
    from safetensors.numpy import save_file

    theirs = to_theirs(arrays, config, head)
    with files.atomic_path(os.path.join(folder, WEIGHTS)) as path:
        save_file(theirs, path, {"format": "pt"})


def to_theirs(
    arrays: dict[str, np.ndarray], config: EncoderConfig, head: str
) -> dict[str, np.ndarray]:
    """Arrays by canonical name -> by their names and in their shapes, float32.

    Raises UserError: an array that their class has no place for, or weights of
    it that are not there.
    """
    family = family_of(config.model_type)
    arrays = dict(arrays)
    family.to_theirs(arrays, config)
    table = name_table(config, head)
    surplus = sorted(set(arrays) - set(table))
    if surplus:
        raise UserError(
            f"{family.class_name(head)} has no place for {surplus[:5]} "
            f"({len(surplus)} variables); use --to_format=native"
        )
    family.check_complete(arrays, head)
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
