"""Which settings belong to a trained model: of all commands.

A field whose setting is `common.settings.Kept` is written to `task.json` and
read from it; every other field of the tasks' options is named with the reason
in `tests/data/finetuning/test_task_settings.py`. Evaluation, prediction and
export take recorded values from the model's folder
(`flags.tasks.finetune_flags.adopt`).
"""

import dataclasses
from collections.abc import Iterator, Sequence

from common.contract.symbols import CLS_LAST
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.settings import DATA, HEAD, UNKNOWN, Kept, settings_of
from data.finetuning import options
from training.finetuning.options import FinetuneOptions

CLASSIFIER, SQUAD, RACE = "classifier", "squad", "race"
TAGGER = "tagger"
ALL = (CLASSIFIER, SQUAD, RACE, TAGGER)
# Options -> the commands that have them.
_COMMANDS = {
    options.FeatureOptions: ALL,
    FinetuneOptions: (CLASSIFIER, RACE),
    options.ClassifierDataOptions: (CLASSIFIER,),
    options.SquadDataOptions: (SQUAD,),
    options.RaceDataOptions: (RACE,),
    options.TaggingDataOptions: (TAGGER,),
}


@dataclasses.dataclass(frozen=True)
class TrainedSetting:
    """One value that a trained model keeps."""

    name: str
    kept: Kept
    commands: tuple[str, ...] = ALL
    has_flag: bool = True  # False where several flags make the value

    @property
    def meaning(self) -> bool:
        """Another value would make it another model."""
        return self.kept.meaning

    @property
    def key(self) -> str:
        """Its name in the file."""
        return self.kept.key or self.name

    def read(self, spec: TaskSpec) -> object:
        """Its value in a task.json, or that of a file that lacks it."""
        if not self.kept.part:
            value = getattr(spec, self.key)
            unknown = self.key == "labels" and unnamed(value)
            return UNKNOWN if unknown else value
        return getattr(spec, self.kept.part).get(self.key, self.kept.before)


def _settings() -> Iterator[TrainedSetting]:
    yield TrainedSetting("head", Kept("", True), (CLASSIFIER,), False)
    yield TrainedSetting("text", Kept("", True), has_flag=False)
    layout = Kept(DATA, True, CLS_LAST)
    yield TrainedSetting("layout", layout, has_flag=False)
    kept, commands = {}, {}
    for cls, having in _COMMANDS.items():
        for name, setting in settings_of(cls).items():
            if setting.kept:
                if kept.setdefault(name, setting.kept) != setting.kept:
                    raise ValueError(f"`{name}` is kept in two ways")
                commands[name] = commands.get(name, ()) + having
    for name in kept:
        yield TrainedSetting(name, kept[name], commands[name])


SETTINGS = tuple(_settings())
# Found by an evaluation and kept in `data_options`; see `data.finetuning.squad.task`.
THRESHOLD = "null_score_diff_threshold"
# Of `data_options`: the hash of the training's dev file, on which alone
# thresholds are found.
DEV_DATA = "dev_data"


def unnamed(labels: Sequence[str]) -> bool:
    """Whether labels have the names that stand for none (`LABEL_0`, ...)."""
    return bool(labels) and list(labels) == [
        f"LABEL_{i}" for i in range(len(labels))
    ]


def refuse_unnamed(labels: Sequence[str]) -> None:
    """Raises UserError: rows with labels are to be judged by such names."""
    raise UserError(
        f"--labels: wanted names of the model's {len(labels)} outputs as the "
        f"dev file has them, found {', '.join(labels[:3])}, which stand for "
        "none; give them in the order of the logits"
    )


def of_command(command: str) -> tuple[TrainedSetting, ...]:
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

    The first of the sources, option objects, with a field of a setting's name
    gives its value; `values` are those that they do not have. `head_options`
    and `data_options` are no settings (`num_labels`).
    """
    parts: dict[str, dict] = {
        "": {"labels": tuple(labels), "head": head},
        HEAD: dict(head_options or {}),
        DATA: dict(data_options or {}),
    }
    for setting in of_command(command):
        if setting.name in values:
            value = values[setting.name]
        elif setting.name in ("head", "labels"):
            continue
        else:
            source = next(s for s in sources if hasattr(s, setting.name))
            value = getattr(source, setting.name)
        parts[setting.kept.part][setting.key] = plain(value)
    return TaskSpec(
        task_name=task_name,
        spiece_sha256=spiece_sha256,
        head_options=parts[HEAD],
        data_options=parts[DATA],
        **parts[""],
    )


def plain(value: object) -> object:
    """A value as JSON gives it back: tuples are lists."""
    return list(value) if isinstance(value, tuple) else value


def differing(found: TaskSpec, wanted: TaskSpec) -> list[TrainedSetting]:
    """Settings that both know and that are not equal."""
    result = []
    for setting in SETTINGS:
        old, new = (plain(setting.read(spec)) for spec in (found, wanted))
        if UNKNOWN not in (old, new) and old != new:
            result.append(setting)
    return result


def difference(setting: TrainedSetting, path: str, found, wanted) -> str:
    """One line: what the model has and what was asked for.

    Raises UserError: the setting makes another model.
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
    """Notes on what differs from a trained model; UserError: another model."""
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
