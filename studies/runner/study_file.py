"""The one file of options of a study (`studies.run`), checked."""

import contextlib
import dataclasses
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from common import checks, files
from common.errors import UserError
from studies.runner import study_commands
from studies.runner.seed_table import Column
from studies.runner.study_commands import Command, Task, command
from studies.runner.study_rows import RowOptions

OPTIONS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "options")


@dataclasses.dataclass(frozen=True)
class ResultColumn(Column):
    """A column and where its numbers are.

    Attributes:
      of: the task whose run has it, or "pretrain".
      file: in the run's folder; .jsonl: its last line.
      scale: what it is multiplied by.

    Raises:
      UserError: an entry is of another kind.
    """

    of: str = "pretrain"
    file: str = ""
    metric: str = ""
    scale: float = 1.0

    def __post_init__(self):
        kinds = {str: "text", bool: "true or false", int: "whole number"}
        for field in dataclasses.fields(self):
            kind, value = field.type, getattr(self, field.name)
            fits = type(value) is kind or (kind is float and type(value) is int)
            if not fits:
                raise UserError(
                    f"column {self.name!r}: `{field.name}` must be "
                    f"{kinds.get(kind, 'number')}, found {value!r}"
                )
        checks.within(self, ">= 0", "digits", form=checks.FIELD)


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
      pretrain: None = every row has a `start`.
      tasks: name -> command, and what is searched.
      kind: of `registry.KINDS`, which jobs and which report.
      name: of the file, for captions.
      start: folder of weights that rows may begin with.
      random_init_std: deviation of the weights of rows that begin with random
        ones; 0 = that with which the weights of `start` began, which may be no
        good for tuning alone.
      first: name -> what is made before all rows: [corpus], which writes the
        text that is pretrained on where --input_glob is not given,
        [vocabulary] and [first.NAME].
      figure_base: key of the row that the picture is relative to; "" = none.
      speed_steps: of the runs that the budget is measured with; 0 = none.
    """

    reference: str
    rows: tuple[RowOptions, ...]
    columns: tuple[ResultColumn, ...]
    pretrain_seeds: int = 1
    finetune_seeds: int = 1
    records: Command | None = None
    pretrain: Command | None = None
    tasks: dict[str, Task] = dataclasses.field(default_factory=dict)
    kind: str = "study"
    name: str = ""
    start: str = ""
    random_init_std: float = 0.0
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
        _among("`reference`", [self.reference], keys)
        _among("`figure_base`", [self.figure_base or keys[0]], keys)
        if not isinstance(self.start, str):
            raise UserError(f"`start` must be a folder, found {self.start!r}")
        how = {"form": checks.FIELD, "whole": True}
        checks.within(self, ">= 1", "pretrain_seeds", "finetune_seeds", **how)
        checks.within(self, ">= 0", "speed_steps", **how)
        checks.within(self, ">= 0", "random_init_std", form=checks.FIELD)
        if self.records:
            flags = self.records.flags
            study_commands.refuse_given("[records]", flags, ("output_dir",))
        for row in self.rows:
            self._check_row(row, keys)
        for column in self.columns:
            of = f"column {column.name!r}: `of`"
            _among(of, [column.of], ["pretrain", *self.tasks])
        self._check_searches()
        for claim in self.claims:
            what = f"claim {claim.text!r}: a"
            _among(f"{what} row", (*claim.more, *claim.less), keys)
            _among(f"{what} column", claim.columns, names)
            self._check_claimed(claim)

    def _check_claimed(self, claim: Claim) -> None:
        """Its rows must have the tasks of its columns, or it is never decided."""
        for row in self.rows:
            for column in self.columns:
                task = self.tasks.get(column.of)
                if (
                    task is not None
                    and task.base in row.without
                    and row.key in (*claim.more, *claim.less)
                    and column.name in claim.columns
                ):
                    raise UserError(
                        f"claim {claim.text!r}: row {row.name!r} is without "
                        f"{task.base!r}, of which column {column.name!r} is"
                    )

    def _check_row(self, row: RowOptions, keys: list[str]) -> None:
        name, refuse = f"row {row.name!r}:", study_commands.refuse_given
        _among(f"{name} `seconds_of`", [row.seconds_of or keys[0]], keys)
        entries = dict.fromkeys(task.base for task in self.tasks.values())
        _among(f"{name} a task", (*row.tasks, *row.without), entries)
        in_place = any(task.in_place for task in self.tasks.values())
        own = row.records or row.pretrain or row.drop or row.seconds_of
        if row.start and (own or in_place):
            raise UserError(
                f"{name} `start` is instead of a pretraining, which flags of "
                "the row or a task that is `in_place` need"
            )
        if not (self.start if row.start else self.pretrain):
            wanted = "`start` of the study" if row.start else "[pretrain]"
            raise UserError(f"{name} {wanted} is missing")
        if self.pretrain:
            _among(f"{name} `drop`", row.drop, self.pretrain.flags)
            data = ("data_dir",) if self.records else ()
            runs = (*study_commands.RUN, *data)
            refuse(f"{name} pretraining", self.flags_of(row), runs)
        refuse(f"{name} `records`", row.records, ("output_dir",))
        for task in self.tasks.values():
            flags = row.tasks.get(task.base, {})
            given = study_commands.given_of(task.in_place)
            names = (*given, *task.search)  # all of its points would be one
            refuse(f"{name} task {task.base!r}", flags, names)
        columns = [c.name for c in self.columns]
        _among(f"{name} `paper`: a column", row.paper, columns)
        if row.seconds_of:
            self._check_seconds(row)

    def _check_seconds(self, row: RowOptions) -> None:
        """Its steps follow from those of the other row, and from timings."""
        other = next(r for r in self.rows if r.key == row.seconds_of)
        flags = self.flags_of(other) if self.pretrain else {}
        if other.start or "train_steps" not in flags or not self.speed_steps:
            raise UserError(
                f"row {row.name!r}: `seconds_of` needs `speed_steps` of at "
                f"least 1, and `train_steps` of row {other.name!r}"
            )

    def refuse_unreported(self) -> None:
        """Of kinds whose report has neither: UserError says so."""
        for what, given in (
            ("[[claims]]", self.claims),
            ("`paper` of a row", any(row.paper for row in self.rows)),
        ):
            if given:
                raise UserError(
                    f'kind = "{self.kind}" reports no {what}: leave it out'
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

    def flags_of(self, row: RowOptions) -> dict[str, Any]:
        """Of a row's pretraining, without its data and its seed."""
        flags = self.pretrain.flags
        kept = {k: v for k, v in flags.items() if k not in row.drop}
        return kept | row.pretrain

    def chooser(self, task: str) -> ResultColumn:
        """The column that says which point of a task's search is best."""
        compared = [c for c in self.columns_of(task) if c.compare]
        by = self.tasks[task].by or compared[0].name
        return next(c for c in compared if c.name == by)

    def tasks_of(self, row: RowOptions) -> dict[str, Task]:
        """Those of a row."""
        given = self.tasks.items()
        return {k: task for k, task in given if task.base not in row.without}

    def tuning_seeds(self, task: str) -> range:
        """Of one pretraining; an evaluation of it has no seed of its own."""
        return range(1 if self.tasks[task].in_place else self.finetune_seeds)

    def columns_of(self, source: str) -> list[ResultColumn]:
        """Those whose numbers a job of `source` leaves."""
        return [c for c in self.columns if c.of == source]

    @property
    def equal_seconds(self) -> bool:
        """Whether steps follow from measured speeds."""
        return any(row.seconds_of for row in self.rows)

    @property
    def command(self) -> str:
        """What makes the numbers, for the caption of a picture."""
        of = f" --study={self.name}" if self.name else ""
        return f"python -m studies.run{of}"

    def chosen(self, tasks: Sequence[str]) -> "StudyOptions":
        """Without the other tasks, their columns and claims on these.

        Raises:
          UserError: a name is no task.
        """
        left = study_commands.chosen(self.tasks, tasks)
        columns = tuple(c for c in self.columns if c.of in ("pretrain", *left))
        names = {c.name for c in columns}
        claims = [
            dataclasses.replace(
                claim, columns=tuple(c for c in claim.columns if c in names)
            )
            for claim in self.claims
        ]
        rows = (
            dataclasses.replace(
                row,
                tasks={k: v for k, v in row.tasks.items() if k in tasks},
                without=tuple(k for k in row.without if k in tasks),
                paper={k: v for k, v in row.paper.items() if k in names},
            )
            for row in self.rows
        )
        return dataclasses.replace(
            self,
            tasks=left,
            columns=columns,
            claims=tuple(c for c in claims if c.columns),
            rows=tuple(rows),
        )


def read_toml(path: str, places: dict[str, str]) -> dict[str, Any]:
    """A TOML file with texts in the place of `{name}` in its values.

    Lists become tuples.

    Raises:
      UserError: no TOML, or a name that is not in `places`.
    """
    try:
        text = files.read_bytes(path).decode()
        return _filled(tomllib.loads(text), places)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UserError(f"{path} is no TOML: {e}") from e
    except KeyError as e:
        raise UserError(
            f"{path}: {{{e.args[0]}}} is not known; there are "
            f"{', '.join(places)}"
        ) from e
    except UserError as e:
        raise UserError(f"{path}: {e}") from e


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


def names() -> list[str]:
    """Of the studies that come with the project."""
    return sorted(n[:-5] for n in os.listdir(OPTIONS) if n.endswith(".toml"))


def path_of(name: str) -> str:
    """The file of a study that comes with the project, or the path given.

    Raises:
      UserError: there is neither.
    """
    path = os.path.join(OPTIONS, f"{name}.toml")
    if files.exists(path):
        return path
    if not files.exists(name):
        raise UserError(
            f"{name} does not exist: give a TOML file or one of "
            f"{', '.join(names())}"
        )
    return name


def options_of(
    value: dict[str, Any], options: type[StudyOptions] = StudyOptions
) -> StudyOptions:
    """Entries of a file: `[all]` holds flags of pretraining and every task.

    docs/explanation/ablation.md describes them.

    Raises:
      UserError, KeyError, TypeError: one is missing, unknown or wrong.
    """
    entries = dict(value)
    first = {
        name: entries.pop(name)
        for name in ("corpus", "vocabulary")
        if name in entries
    } | entries.pop("first", {})
    entries["first"] = {name: command(value) for name, value in first.items()}
    shared = study_commands.table("[all]", entries.pop("all", {}))
    records, pretrain = entries.get("records"), entries.get("pretrain")
    entries["records"] = command(records) if records else None
    entries["pretrain"] = command(shared | pretrain) if pretrain else None
    tasks: dict[str, Task] = {}
    sections = study_commands.table("[tasks]", entries.get("tasks", {}))
    for name, value in sections.items():
        tasks |= study_commands.tasks_of(name, shared | value)
    entries["tasks"] = tasks
    entries["rows"] = _made(RowOptions, entries["rows"])
    entries["columns"] = tuple(
        column
        for entry in _made(ResultColumn, entries["columns"])
        for column in _with_labels(entry, tasks)
    )
    entries["claims"] = _made(Claim, entries.get("claims", []))
    return options(**entries)


def _among(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise UserError(
                f"{what} must be one of {', '.join(known)}, found {name!r}"
            )


def _with_labels(column: ResultColumn, tasks: dict[str, Task]):
    """A column, or one for each number of labels of its task."""
    columns = [
        dataclasses.replace(column, name=task.named(column.name), of=name)
        for name, task in tasks.items()
        if task.base == column.of and task.labels
    ]
    return columns or [column]


def _filled(value, places):
    if isinstance(value, str) and "{" in value:
        try:
            return value.format_map(places)
        except (ValueError, AttributeError, IndexError, TypeError) as e:
            raise UserError(
                f"{value!r}: braces stand around one of {', '.join(places)}; "
                f"{{{{ is a brace itself ({e})"
            ) from e
    if isinstance(value, list):
        return tuple(_filled(v, places) for v in value)
    if isinstance(value, dict):
        return {k: _filled(v, places) for k, v in value.items()}
    return value


def _made(kind, values) -> tuple:
    return tuple(kind(**value) for value in values)
