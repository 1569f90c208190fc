"""The one file of options of a study (`studies.run`), checked."""

import contextlib
import dataclasses
import itertools
import os
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from common import files
from common.errors import UserError
from studies.runner.seed_table import Column

OPTIONS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "options")
# Flags of a tuning that no file gives.
_RUNNERS = ("init_checkpoint", "model_dir", "seed")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command and the flags that every row gives it.

    Attributes:
      command: words for the interpreter: a file, or -m and a module.
      flags: name -> value.
    """

    command: tuple[str, ...]
    flags: dict[str, Any]

    def words(self, **more) -> tuple[str, ...]:
        """The command with its flags and more of them, which win."""
        from studies.runner.jobs import as_flags

        return (*self.command, *as_flags(self.flags | more))


@dataclasses.dataclass(frozen=True)
class Task(Command):
    """A task's command, and the grid that each row searches.

    Attributes:
      search: flag -> its values; {} = one point, the flags as they are.
      by: column whose median says which point is best; "" = the task's first.
      in_place: it works in the folder of the pretraining (an evaluation of
        it), without a seed and a folder of its own.
    """

    search: dict[str, tuple] = dataclasses.field(default_factory=dict)
    by: str = ""
    in_place: bool = False

    def points(self) -> list[dict[str, Any]]:
        """Flags of every combination, the last flag's values fastest."""
        values = itertools.product(*self.search.values())
        return [dict(zip(self.search, v, strict=True)) for v in values]


@dataclasses.dataclass(frozen=True)
class RowOptions:
    """What one row has that others have not.

    Attributes:
      name: of the row; its first word names its folders.
      records: flags of the records' command.
      pretrain: flags of the pretraining command.
      drop: flags of [pretrain] that this row is not given.
      tasks: task -> flags of its command.
      seconds_of: key of a row; pretraining takes as many seconds as that
        one's, by measured steps. "" = `train_steps`.
      paper: column -> the paper's number.
    """

    name: str
    records: dict[str, Any] = dataclasses.field(default_factory=dict)
    pretrain: dict[str, Any] = dataclasses.field(default_factory=dict)
    drop: tuple[str, ...] = ()
    tasks: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    seconds_of: str = ""
    paper: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name's first word."""
        return self.name.split()[0]


@dataclasses.dataclass(frozen=True)
class ResultColumn(Column):
    """A column and where its numbers are.

    Attributes:
      of: the task whose run has it, or "pretrain".
      file: in the run's folder; .jsonl: its last line.
      scale: what it is multiplied by.
    """

    of: str = "pretrain"
    file: str = ""
    metric: str = ""
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something that the paper says of rows.

    Attributes:
      more, less: keys of rows; each of `more` should be better than each of
        `less`.
      columns: in which columns.
    """

    text: str
    more: tuple[str, ...]
    less: tuple[str, ...]
    columns: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """All of it.

    Attributes:
      reference: key of the row that others are compared with.
      pretrain_seeds, finetune_seeds: how many, from 0.
      records: of every row; None = [pretrain] names its data.
      tasks: name -> command, and what is searched.
      first: name -> what is made before all rows: [corpus], which writes the
        text that is pretrained on where --input_glob is not given, and
        [vocabulary].
      figure_base: key of the row that the picture is relative to; "" = none.
      speed_steps: of the runs that the budget is measured with.
    """

    reference: str
    pretrain_seeds: int
    finetune_seeds: int
    records: Command | None
    pretrain: Command
    tasks: dict[str, Task]
    rows: tuple[RowOptions, ...]
    columns: tuple[ResultColumn, ...]
    claims: tuple[Claim, ...] = ()
    first: dict[str, Command] = dataclasses.field(default_factory=dict)
    figure_base: str = ""
    speed_steps: int = 20

    def __post_init__(self):
        keys = [row.key for row in self.rows]
        names = [c.name for c in self.columns]
        for what, names_given in (("rows", keys), ("columns", names)):
            if len(set(names_given)) < len(names_given) or not names_given:
                raise UserError(
                    f"{what} must have different names, found {names_given}"
                )
        for name in ("reference", *(["figure_base"] * bool(self.figure_base))):
            if getattr(self, name) not in keys:
                raise UserError(
                    f"`{name}` must be one of the rows {', '.join(keys)}, "
                    f"found {getattr(self, name)!r}"
                )
        for row in self.rows:
            if row.seconds_of and row.seconds_of not in keys:
                raise UserError(
                    f"row {row.name!r}: `seconds_of` must be one of "
                    f"{', '.join(keys)}, found {row.seconds_of!r}"
                )
            if unknown := sorted(set(row.tasks) - set(self.tasks)):
                raise UserError(
                    f"row {row.name!r}: there is no task {unknown[0]!r} among "
                    f"{', '.join(self.tasks)}"
                )
        for name in ("pretrain_seeds", "finetune_seeds", "speed_steps"):
            if not isinstance(getattr(self, name), int) or (
                getattr(self, name) < 1
            ):
                raise UserError(
                    f"`{name}` must be a number from 1 on, found "
                    f"{getattr(self, name)!r}"
                )
        sources = ("pretrain", *self.tasks)
        for column in self.columns:
            if column.of not in sources:
                raise UserError(
                    f"column {column.name!r}: `of` must be one of "
                    f"{', '.join(sources)}, found {column.of!r}"
                )
        self._check_searches()
        for claim in self.claims:
            for names_given, known in (
                ((*claim.more, *claim.less), keys),
                (claim.columns, names),
            ):
                if unknown := sorted(set(names_given) - set(known)):
                    raise UserError(
                        f"claim {claim.text!r}: there is no {unknown[0]!r} "
                        f"among {', '.join(known)}"
                    )

    def _check_searches(self) -> None:
        for name, task in self.tasks.items():
            known = [c.name for c in self.columns_of(name) if c.compare]
            if not task.search or task.by in known or (known and not task.by):
                continue
            raise UserError(
                f"tasks.{name}.search: `by` must be a column of this task that "
                f"may be compared ({', '.join(known) or 'there is none'}), "
                f"found {task.by!r}"
            )

    def chooser(self, task: str) -> ResultColumn:
        """The column that says which point of a task's search is best."""
        compared = [c for c in self.columns_of(task) if c.compare]
        by = self.tasks[task].by or compared[0].name
        return next(c for c in compared if c.name == by)

    def columns_of(self, source: str) -> list[ResultColumn]:
        """Those whose numbers a job of `source` leaves."""
        return [c for c in self.columns if c.of == source]


def read_toml(path: str, places: dict[str, str]) -> dict[str, Any]:
    """A TOML file with texts in the place of `{name}` in its values.

    Lists become tuples.

    Raises:
      UserError: no TOML, or a name that is not in `places`.
    """
    text = files.read_bytes(path).decode("utf-8", "replace")
    try:
        return _filled(tomllib.loads(text), places)
    except tomllib.TOMLDecodeError as e:
        raise UserError(f"{path} is no TOML: {e}") from e
    except KeyError as e:
        raise UserError(
            f"{path}: {{{e.args[0]}}} is not known; there are "
            f"{', '.join(places)}"
        ) from e


@contextlib.contextmanager
def entries_of(path: str) -> Iterator[None]:
    """What is wrong with a file's entries becomes a line with its name.

    Raises:
      UserError: an entry is missing, unknown or wrong.
    """
    try:
        yield
    except KeyError as e:
        raise UserError(f"{path}: {e.args[0]!r} is missing") from e
    except (TypeError, AttributeError) as e:
        what = str(e).split("__init__() ")[-1]
        raise UserError(f"{path}: {what}") from e
    except UserError as e:
        raise UserError(f"{path}: {e}") from e


def path_of(name: str) -> str:
    """The file of a study that comes with the project, or the path given.

    Raises:
      UserError: there is neither.
    """
    path = os.path.join(OPTIONS, f"{name}.toml")
    if files.exists(path):
        return path
    if not files.exists(name):
        known = sorted(n[:-5] for n in os.listdir(OPTIONS))
        raise UserError(
            f"{name} does not exist: give a TOML file or one of "
            f"{', '.join(known)}"
        )
    return name


def load(path: str, places: dict[str, str]) -> StudyOptions:
    """Reads a TOML file: `[all]` holds flags of pretraining and every task.

    Args:
      path: the file; docs/explanation/ablation.md describes it.
      places: name -> text that stands for `{name}` in values.

    Raises:
      UserError: no TOML, or an entry that is missing, unknown or wrong.
    """
    value = read_toml(path, places)
    with entries_of(path):
        entries = dict(value)
        entries["first"] = {
            name: command(entries.pop(name))
            for name in ("corpus", "vocabulary")
            if name in entries
        }
        shared = dict(entries.pop("all", {}))
        records = entries.get("records")
        entries["records"] = command(records) if records else None
        entries["pretrain"] = command(shared | entries["pretrain"])
        entries["tasks"] = {
            name: task_of(name, shared | value)
            for name, value in entries.get("tasks", {}).items()
        }
        entries["rows"] = _made(RowOptions, entries["rows"])
        entries["columns"] = _made(ResultColumn, entries["columns"])
        entries["claims"] = _made(Claim, entries.get("claims", []))
        return StudyOptions(**entries)


def chosen(options: StudyOptions, tasks: Sequence[str]) -> StudyOptions:
    """Without the other tasks, their columns and claims on these.

    Raises:
      UserError: a name is no task.
    """
    if unknown := sorted(set(tasks) - set(options.tasks)):
        raise UserError(
            f"--tasks={','.join(tasks)}: there is no {unknown[0]!r} among "
            f"{', '.join(options.tasks)}"
        )
    kept = ("pretrain", *tasks)
    columns = tuple(c for c in options.columns if c.of in kept)
    names = {c.name for c in columns}
    claims = (
        dataclasses.replace(
            claim, columns=tuple(c for c in claim.columns if c in names)
        )
        for claim in options.claims
    )
    rows = (
        dataclasses.replace(
            row, tasks={k: v for k, v in row.tasks.items() if k in tasks}
        )
        for row in options.rows
    )
    return dataclasses.replace(
        options,
        tasks={name: options.tasks[name] for name in tasks},
        columns=columns,
        claims=tuple(c for c in claims if c.columns),
        rows=tuple(rows),
    )


def _filled(value, places):
    if isinstance(value, str):
        return value.format_map(places) if "{" in value else value
    if isinstance(value, list):
        return tuple(_filled(v, places) for v in value)
    if isinstance(value, dict):
        return {k: _filled(v, places) for k, v in value.items()}
    return value


def command(value: dict) -> Command:
    """The entry `command`, and all others as its flags."""
    flags = dict(value)
    return Command(tuple(flags.pop("command").split()), flags)


def task_of(name: str, value: dict) -> Task:
    """[tasks.NAME] with its [tasks.NAME.search].

    Raises:
      UserError: a flag's values are no list of texts and numbers that differ.
    """
    flags = dict(value)
    search = dict(flags.pop("search", {}))
    by, in_place = search.pop("by", ""), flags.pop("in_place", False)
    for flag, values in search.items():
        if flag in _RUNNERS:
            raise UserError(
                f"tasks.{name}.search: `{flag}` is set by the runner"
            )
        good = isinstance(values, tuple) and values
        if not good or len(set(map(str, values))) < len(values):
            raise UserError(
                f"tasks.{name}.search: `{flag}` must be a list of different "
                f"values, found {values!r}"
            )
        for v in values:
            if not isinstance(v, (int, float, str)) or "/" in str(v):
                raise UserError(
                    f"tasks.{name}.search: `{flag}` must have numbers or texts "
                    f'without "/" (they name folders), found {v!r}'
                )
    tuning = command(flags)
    return Task(tuning.command, tuning.flags, search, by, in_place)


def _made(kind, values) -> tuple:
    return tuple(kind(**value) for value in values)
