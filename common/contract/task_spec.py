"""`task.json`: what a fine-tuned model needs besides weights and config.

Written into `model_dir` by the fine-tuning commands beside a copy of the
SentencePiece file (`spiece.model`) and `xlnet_config.json`; read by evaluation,
export and serving, so that a model directory can be used on its own.
"""

import dataclasses
import os
from typing import Any

from common import files
from common.errors import UserError
from common.references import resolve
from common.vocabularies import vocabulary
from common.vocabularies.text_settings import TextSettings

FILE_NAME = "task.json"
SPIECE_NAME = vocabulary.FILE_NAME
FORMAT_VERSION = 2
# Of models that others fine-tuned, and that have no task.json.
_RELEASED = "modeling.checkpoints.released_task"
_CONFIG = "config.json"
_TYPES = {
    "task_name": str,
    "head": str,
    "labels": list,
    "max_seq_length": int,
    "text": dict,
    "spiece_sha256": str,
    "head_options": dict,
    "data_options": dict,
}
# Of `data_options`, where the file has them.
_DATA_TYPES = {
    "layout": str,
    "num_texts": int,
    "null_score_diff_threshold": int | float | None,
    "label_threshold": int | float | None,
}


def find_folder(path: str) -> str | None:
    """The folder with the task.json of a checkpoint or model directory.

    A released folder whose `config.json` names a head counts, too.

    Args:
      path: a directory, a checkpoint's prefix or its `.index` file, in a model
        directory or in its `best/`.
    """
    folder = path.rstrip("/")
    if not files.is_folder(folder):
        folder = os.path.dirname(folder)
    places = [folder]
    # A model folder may be called so, too: its own file is the first.
    if os.path.basename(folder) == "best":
        places.append(os.path.dirname(folder))
    for candidate in places:
        if files.exists(os.path.join(candidate, FILE_NAME)):
            return candidate or "."
    if files.exists(os.path.join(folder, _CONFIG)):
        if resolve(f"{_RELEASED}:head_in")(folder):
            return folder or "."
    return None


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A task as its model sees it."""

    task_name: str  # e.g. "tsv", "mnli", "squad", "race"
    head: str  # a key of `common.contract.schema.HEAD_FIELDS`
    # class names in the order of the logits; empty when not used
    labels: tuple[str, ...]
    max_seq_length: int
    # how text is handled before tokenization; the vocabulary's
    text: TextSettings
    spiece_sha256: str
    # keyword arguments of the head (e.g. `summary_type`)
    head_options: dict = dataclasses.field(default_factory=dict)
    # how examples become features (e.g. `doc_stride`)
    data_options: dict = dataclasses.field(default_factory=dict)

    def write(self, model_dir: str) -> None:
        """Writes `task.json` into `model_dir`, atomically."""
        value = dataclasses.asdict(self) | {"format_version": FORMAT_VERSION}
        files.write_json(os.path.join(model_dir, FILE_NAME), value)

    @classmethod
    def read(cls, model_dir: str) -> "TaskSpec":
        """Reads `task.json` of a model directory.

        Of a released folder without one it is what its configuration says.
        Raises UserError: missing, no JSON or of another version.
        """
        path = os.path.join(model_dir, FILE_NAME)
        if not files.exists(path) and files.exists(
            os.path.join(model_dir, _CONFIG)
        ):
            if released_fields := resolve(f"{_RELEASED}:fields")(model_dir):
                return cls(**released_fields)
        value = files.read_json_object(
            path,
            f"`{model_dir}` is not the directory of a fine-tuned model; give the "
            "--model_dir of a run_classifier.py, run_squad.py, run_race.py or "
            "run_tagger.py run",
        )
        version = value.pop("format_version", None)
        if version == 1 and "uncased" in value:
            # Always the original's rule, whatever the vocabulary's was.
            text = TextSettings(uncased=bool(value.pop("uncased")))
            value["text"] = text.as_dict()
        elif version != FORMAT_VERSION:
            raise UserError(
                f"{path}: wanted format_version {FORMAT_VERSION}, found "
                f"{version}; train again or use the version that wrote it"
            )
        names = {f.name for f in dataclasses.fields(cls)}
        if set(value) != names:
            raise UserError(
                f"{path}: wanted the fields {sorted(names)}, found "
                f"{sorted(value)}"
            )
        _check_types(path, value, _TYPES)
        data = value["data_options"]
        there = {n: kind for n, kind in _DATA_TYPES.items() if n in data}
        _check_types(f"{path}: data_options", data, there)
        if not all(isinstance(label, str) for label in value["labels"]):
            raise UserError(f"{path}: labels: wanted strings")
        if value["max_seq_length"] < 1:
            raise UserError(f"{path}: max_seq_length: wanted 1 or more")
        text = TextSettings.from_dict(value["text"], path)
        labels = tuple(value["labels"])
        return cls(**(value | {"labels": labels, "text": text}))


def _check_types(where: str, found: dict, kinds: dict[str, Any]) -> None:
    """Raises UserError with the first value that is not of its kind."""
    for name, kind in kinds.items():
        field = found[name]
        if not isinstance(field, kind) or isinstance(field, bool):
            raise UserError(
                f"{where}: {name}: wanted {getattr(kind, '__name__', kind)}, "
                f"found {type(field).__name__}"
            )
