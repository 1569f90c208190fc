"""Which settings belong to a trained model: one table for all commands (L0).

`task.json` is written from this table and nothing else, and read by it: a
field of the tasks' option classes is either a `Setting` or named with the
reason in `tests/data/finetuning/test_task_settings.py`. Evaluation, prediction
and export take recorded values from the model's folder
(`flags.finetune_flags.adopt`).
"""

import dataclasses
from collections.abc import Sequence

from common.errors import UserError
from data.symbols import CLS_LAST
from data.task_spec import TaskSpec

# What an older task.json does not say and nothing can tell.
UNKNOWN = object()

CLASSIFIER, SQUAD, RACE = "classifier", "squad", "race"
TAGGER = "tagger"
ALL = (CLASSIFIER, SQUAD, RACE, TAGGER)
POOLED = (CLASSIFIER, RACE)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One value that a trained model keeps.

    Attributes:
      name: of the flag and of the field of the options.
      part: "head_options", "data_options" or "" for a field of `TaskSpec`.
      meaning: another value would make it another model; else it may be
        changed (lengths, lists of answers, names of columns) and is said.
      default: of a task.json that was written before it was recorded.
      commands: who has it.
      key: its name in `part`; empty = `name`.
      has_flag: False where several flags make the value.
    """

    name: str
    part: str
    meaning: bool
    default: object = UNKNOWN
    commands: tuple[str, ...] = ALL
    key: str = ""
    has_flag: bool = True

    def read(self, spec: TaskSpec) -> object:
        """Its value in a task.json, or `default`."""
        key = self.key or self.name
        if not self.part:
            return getattr(spec, key)
        return getattr(spec, self.part).get(key, self.default)


_HEAD, _DATA = "head_options", "data_options"
_TABLE = (CLASSIFIER,)
SETTINGS = (
    Setting("head", "", True, commands=_TABLE, has_flag=False),
    Setting("labels", "", True, commands=(CLASSIFIER, TAGGER)),
    Setting("max_seq_length", "", False),
    Setting("text", "", True, has_flag=False),
    Setting("summary_type", _HEAD, True, "last", POOLED),
    Setting("use_summ_proj", _HEAD, True, True, POOLED, key="use_proj"),
    Setting("pooling", _HEAD, True, "masked", POOLED),
    Setting("segment_recurrence", _DATA, True, 0),
    Setting("layout", _DATA, True, CLS_LAST, has_flag=False),
    Setting("text_columns", _DATA, False, commands=_TABLE),
    Setting("label_column", _DATA, False, commands=_TABLE),
    Setting("has_header", _DATA, False, commands=_TABLE),
    Setting("label_separator", _DATA, False, "|", _TABLE),
    Setting("allow_empty_text", _DATA, False, commands=_TABLE),
    Setting("dev_fraction", _DATA, True, 0.0, _TABLE),
    Setting("dev_seed", _DATA, True, 0, _TABLE),
    Setting("ranking", _DATA, True, False, _TABLE),
    Setting("start_n_top", _HEAD, False, 5, (SQUAD,)),
    Setting("end_n_top", _HEAD, False, 5, (SQUAD,)),
    Setting("max_query_length", _DATA, False, 64, (SQUAD,)),
    Setting("doc_stride", _DATA, False, 128, (SQUAD, TAGGER)),
    Setting("max_answer_length", _DATA, False, 64, (SQUAD,)),
    Setting("n_best_size", _DATA, False, 5, (SQUAD,)),
    Setting("original_last_token_bug", _DATA, False, False, (SQUAD,)),
    Setting("max_qa_length", _DATA, False, 128, (RACE,)),
    Setting("accumulate_options", _DATA, True, False, (RACE,)),
    Setting("text_column", _DATA, False, 0, (TAGGER,)),
    Setting("tag_column", _DATA, False, -1, (TAGGER,)),
    Setting("token_separator", _DATA, False, "auto", (TAGGER,)),
)
# Found by an evaluation and kept in `data_options`; see `data.finetuning.squad.task`.
THRESHOLD = "null_score_diff_threshold"
# Of `data_options`: the hash of the training's dev file, on which alone
# thresholds are found.
DEV_DATA = "dev_data"


def of_command(command: str) -> tuple[Setting, ...]:
    """The settings of a command."""
    return tuple(s for s in SETTINGS if command in s.commands)


def make_spec(
    command: str,
    sources: Sequence[object],
    task_name: str,
    head: str,
    spiece_sha256: str,
    labels: Sequence[str] = (),
    head_options: dict | None = None,
    data_options: dict | None = None,
    **values,
) -> TaskSpec:
    """task.json of a task, every setting included.

    Args:
      command: of `ALL`.
      sources: option objects; the first with a field of a setting's name
        gives its value.
      task_name, head, spiece_sha256, labels: see `TaskSpec`.
      head_options, data_options: what is no setting (`num_labels`).
      **values: settings that the sources do not have.
    """
    parts: dict[str, dict] = {
        "": {"labels": tuple(labels), "head": head},
        _HEAD: dict(head_options or {}),
        _DATA: dict(data_options or {}),
    }
    for setting in of_command(command):
        key = setting.key or setting.name
        if setting.name in values:
            value = values[setting.name]
        elif setting.name in ("head", "labels"):
            continue
        else:
            source = next(s for s in sources if hasattr(s, setting.name))
            value = getattr(source, setting.name)
        parts[setting.part][key] = plain(value)
    return TaskSpec(
        task_name=task_name,
        spiece_sha256=spiece_sha256,
        head_options=parts[_HEAD],
        data_options=parts[_DATA],
        **parts[""],
    )


def plain(value: object) -> object:
    """A value as JSON gives it back: tuples are lists."""
    return list(value) if isinstance(value, tuple) else value


def differing(found: TaskSpec, wanted: TaskSpec) -> list[Setting]:
    """Settings that both know and that are not equal.

    Args:
      found: of the trained model.
      wanted: what is asked for.
    """
    result = []
    for setting in SETTINGS:
        old, new = (plain(setting.read(spec)) for spec in (found, wanted))
        if UNKNOWN not in (old, new) and old != new:
            result.append(setting)
    return result


def difference(setting: Setting, path: str, found, wanted) -> str:
    """One line: what the model has and what was asked for.

    Raises:
      UserError: the setting makes another model.
    """
    name = f"--{setting.name}" if setting.has_flag else f"`{setting.name}`"
    if setting.meaning:
        raise UserError(
            f"{name}: wanted {shown(found)}, with which the model was trained "
            f"({path}), found {shown(wanted)}; leave it out"
        )
    return f"note: {name}={shown(wanted)}, {path} says {shown(found)}"


def shown(value: object) -> str:
    """A value as a flag takes it."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or '""'
    return '""' if value == "" else str(value)


def check_trained(found: TaskSpec, wanted: TaskSpec, path: str) -> list[str]:
    """Notes about what differs from a trained model.

    Args:
      found: task.json of the weights.
      wanted: the job.
      path: of that task.json.

    Raises:
      UserError: the job is for another model.
    """
    if found.head != wanted.head:
        raise UserError(
            f"{path} is of the head {found.head} ({found.task_name}), found "
            f"{wanted.head} ({wanted.task_name}): give its task or another "
            "--model_dir"
        )
    return [
        difference(s, path, s.read(found), s.read(wanted))
        for s in differing(found, wanted)
    ]
