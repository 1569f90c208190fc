"""The rows of a study's file, each checked by itself."""

import dataclasses
from typing import Any

from common import checks
from common.errors import UserError
from studies.runner.study_commands import check_steps
from studies.starts import STARTS


@dataclasses.dataclass(frozen=True)
class RowOptions:
    """What one row has that others have not.

    Attributes:
      name: of the row; its first word names its folders.
      start: of `STARTS`: what the tasks begin with instead of a pretraining;
        "" = [pretrain].
      records: flags of the records' command.
      pretrain: flags of the pretraining command.
      drop: flags of [pretrain] that this row is not given.
      tasks: task -> flags of its command.
      without: tasks that this row has not: its number is not defined.
      seconds_of: key of a row; pretraining takes as many seconds as that
        one's, by measured steps. "" = `train_steps`.
      paper: column -> the paper's number.

    Raises:
      UserError: an entry is of another kind.
    """

    name: str
    start: str = ""
    records: dict[str, Any] = dataclasses.field(default_factory=dict)
    pretrain: dict[str, Any] = dataclasses.field(default_factory=dict)
    drop: tuple[str, ...] = ()
    tasks: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    without: tuple[str, ...] = ()
    seconds_of: str = ""
    paper: dict[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.name, str) or not self.name.split():
            raise UserError(
                f"rows: `name` must begin with a word, found {self.name!r}"
            )
        for name in ("records", "pretrain", "tasks", "paper"):
            self._require(name, isinstance(getattr(self, name), dict), "table")
        for name in ("drop", "without"):
            value = getattr(self, name)
            texts = isinstance(value, tuple) and all(
                isinstance(v, str) for v in value
            )
            self._require(name, texts, "list of texts")
        flags = self.tasks.values()
        tables = all(isinstance(value, dict) for value in flags)
        self._require("tasks", tables, "table of tables")
        numbers = all(type(v) in (int, float) for v in self.paper.values())
        self._require("paper", numbers, "table of numbers")
        if self.start:
            checks.one_of(self, checks.FIELD, start=STARTS)
        for value in (self.pretrain, *flags):
            check_steps(f"row {self.name!r}", value)

    def _require(self, name: str, condition: bool, noun: str) -> None:
        if not condition:
            raise UserError(
                f"row {self.name!r}: `{name}` must be a {noun}, found "
                f"{getattr(self, name)!r}"
            )

    @property
    def key(self) -> str:
        """The name's first word."""
        return self.name.split()[0]
