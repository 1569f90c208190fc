"""What a released folder's `config.json` says of the task of its head.

The fields of `task.json` for a model that others fine-tuned: its class names
the head, `id2label` the labels, `problem_type` the kind of classification.
"""

import os
from typing import Any

from common import files, heads
from common.errors import UserError
from common.references import resolve
from common.vocabularies import joined_texts, vocabulary
from common.vocabularies.text_settings import TextSettings
from common.weights import hub
from modeling.checkpoints import hf, hf_files
from modeling.encoders.registry import spec_of

_MULTI_LABEL = "multi_label"
_TASKS = {"span": "squad", "multiple_choice": "race"}
_NAMED = ("classification", _MULTI_LABEL, "token_classification")
# Rows are at most so long where the user says nothing.
_LENGTH = 512
_LEAST = 3  # a piece beside CLS and SEP
_SENTENCES = "config_sentence_transformers.json"
_QUERY = 64  # tokens of a question, at most half of a row
# Classes with the prediction head before every token's logits.
_TOKENS = ("span", "token_classification")


def head_in(folder: str) -> str | None:
    """The head that a folder's configuration names, None without one.

    Language models and bare encoders have no task.
    """
    theirs = _config(folder)
    return _head(theirs) if theirs else None


def fields(folder: str) -> dict[str, Any] | None:
    """The fields of `common.contract.task_spec.TaskSpec`; None without a task.

    Raises UserError: labels or vocabulary are damaged.
    """
    theirs = _config(folder)
    head = _head(theirs) if theirs else None
    if theirs is None or head is None:
        return None
    if head == "regression" and _count(theirs) != 1:
        raise UserError(
            f"{os.path.join(folder, hub.CONFIG)}: wanted one value of a "
            f"regression, found {_count(theirs)} in id2label: take a model "
            "with one"
        )
    able = spec_of(theirs["model_type"]).capabilities
    labels = _labels(theirs, folder) if head in _NAMED else ()
    options: dict[str, Any] = {"num_labels": len(labels)} if labels else {}
    if head in _TOKENS:
        options |= _of_tokens(theirs, head)
    else:
        options |= {
            "summary_type": able.summary_type,
            "use_proj": theirs.get("summary_use_proj", True) is not False,
            "pooling": "masked",
        } | _pooling(theirs, folder)
    text, digest, layout = _vocabulary(folder, theirs)
    length = _longest(folder, theirs)
    data = {"layout": layout, "released": True}
    if head == "span":
        data["max_query_length"] = min(_QUERY, length // 2)
    if head in heads.CLASSIFIERS and _reads_pairs(folder):
        data["num_texts"] = 2
    return {
        "task_name": _TASKS.get(head, "released"),
        "head": head,
        "labels": labels if head != "multiple_choice" else tuple("ABCD"),
        "max_seq_length": length,
        "text": text,
        "spiece_sha256": digest,
        "head_options": options,
        "data_options": data,
    }


def _config(folder: str) -> dict[str, Any] | None:
    """`config.json` of an encoder of ours with weights beside it, or None."""
    path = os.path.join(folder, hub.CONFIG)
    if not files.exists(path) or not hf_files.form_of(folder):
        return None
    theirs = files.read_json_object(path, "wanted a Hugging Face folder")
    try:
        known = spec_of(theirs.get("model_type")).hugging_face
    except UserError:
        return None
    return theirs if known else None


def _head(theirs: dict[str, Any]) -> str | None:
    family = hf.family_of(theirs["model_type"])
    classes = theirs.get("architectures")
    if not isinstance(classes, list):
        return None
    known = [n for n in heads.with_weights() if n != "pretraining"]
    head = hf.head_of_classes(family, classes, known)
    if head != "classification":
        return head
    if theirs.get("problem_type") == hf.MULTI_LABEL:
        return _MULTI_LABEL
    return "regression" if hf.is_regression(theirs, _count(theirs)) else head


def _names(theirs: dict[str, Any]) -> Any:
    """`id2label`; None beside another number: `num_labels` rules, as there."""
    names, count = theirs.get("id2label"), theirs.get("num_labels")
    ruled = isinstance(names, dict) and type(count) is int and count > 0
    return None if ruled and count != len(names) else names


def _count(theirs: dict[str, Any]) -> int:
    """Outputs; 0 where what says so is damaged."""
    names = _names(theirs)
    if names is not None:
        return len(names) if isinstance(names, dict) else 0
    count = theirs.get("num_labels", 2)
    return count if isinstance(count, int) and count > 0 else 0


def _labels(theirs: dict[str, Any], folder: str) -> tuple[str, ...]:
    """Names of the outputs in the order of the logits."""
    names = _names(theirs)
    count = _count(theirs)
    if not count:
        raise UserError(
            f"{os.path.join(folder, hub.CONFIG)}: wanted names of labels as "
            f"id2label, or how many as num_labels, found {str(names)[:60]} and "
            f"{str(theirs.get('num_labels'))[:60]}"
        )
    if names is None:
        return tuple(f"LABEL_{i}" for i in range(count))
    names_by_id = {
        str(key): str(value) if type(value) is int else value
        for key, value in names.items()
    }
    wanted = [str(i) for i in range(count)]
    if sorted(names_by_id) != sorted(wanted) or not all(
        # An export lists them one per line.
        isinstance(value, str) and len(value.splitlines()) < 2
        for value in names_by_id.values()
    ):
        raise UserError(
            f"{os.path.join(folder, hub.CONFIG)}: wanted in id2label a name of "
            f"one line for each of 0 to {count - 1}, found {str(names)[:60]}"
        )
    if len(set(names_by_id.values())) != count:
        raise UserError(
            f"{os.path.join(folder, hub.CONFIG)}: id2label gives a name twice"
        )
    return tuple(names_by_id[key] for key in wanted)


def _of_tokens(theirs: dict[str, Any], head: str) -> dict[str, Any]:
    """Of heads that read every token."""
    family = hf.family_of(theirs["model_type"])
    projected = family.projection in family.head_names(head)
    options = {"use_proj": True} if projected else {}
    if head == "token_classification":
        return options
    beams = {n: theirs[n] for n in ("start_n_top", "end_n_top") if n in theirs}
    conditioned = f"{family.class_prefix}ForQuestionAnswering"
    starts = heads.HEADS[head].marker[0] in family.head_names(head)
    if starts and conditioned in theirs["architectures"]:
        return beams
    return options | {"independent": True}


def _pooling(theirs: dict[str, Any], folder: str) -> dict[str, Any]:
    """How a classifier makes one vector, where it is not the usual way."""
    if theirs.get("classifier_pooling") == "mean":
        return {"summary_type": "mean"}
    return hf.head_options(folder, "classification")


def _reads_pairs(folder: str) -> bool:
    """Whether sentence-transformers says that a classifier is of two texts."""
    path = os.path.join(folder, _SENTENCES)
    if not files.exists(path):
        return False
    about = files.read_json_object(path, "copy the folder again")
    return about.get("model_type") == "CrossEncoder"


def _longest(folder: str, theirs: dict[str, Any]) -> int:
    """Tokens of a row: as many as encoder and tokenizer allow, and `_LENGTH`.

    A tokenizer without a bound has 1e30 as its `model_max_length`.
    """
    tokenizer = vocabulary.rules_of(folder).get("model_max_length")
    known = (theirs.get("max_position_embeddings"), tokenizer)
    numbers = [n for n in known if isinstance(n, int | float) and n >= _LEAST]
    return int(min([_LENGTH, *numbers]))


def _vocabulary(
    folder: str, theirs: dict[str, Any]
) -> tuple[TextSettings, str, str]:
    """Its text settings, digest and layout; "" = it has no such file."""
    spec = spec_of(theirs["model_type"])
    layout, path = spec.capabilities.layout, vocabulary.find(folder)
    if path is None:
        return TextSettings(), "", layout
    vocabulary.check_cut(
        folder,
        "write right there if the texts are short, or tune a new model from it",
    )
    joined_texts.check_segments(folder, layout)
    symbols = vocabulary.read(path)
    usual = getattr(resolve(spec.config), "type_vocab_size", None)
    joined_texts.check_frame(
        symbols, "write one into the file, or tune a new model from it"
    )
    layout = joined_texts.layout_of(
        symbols, layout, theirs.get("type_vocab_size", usual)
    )
    return vocabulary.settle(symbols, None, folder), symbols.sha256, layout
