"""Commands and tasks of a study's file: flags, a grid, numbers of labels."""

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from common.errors import UserError

ALL = "all"  # of the labels
_SHORTEST = {"warmup_steps": 0, "decay_steps": 1}  # parts of a schedule
_MADE = ("output_dir", "model_prefix", "model_dir")  # what a command writes
# Flags of a run, and of a tuning, that the runner gives.
RUN = ("model_dir", "seed")
TUNING = ("init_checkpoint", *RUN)


@dataclasses.dataclass(frozen=True)
class Command:
    """A command and the flags that every row gives it.

    Attributes:
      command: words for the interpreter: a file, or -m and a module.
      flags: name -> value.
    """

    command: tuple[str, ...]
    flags: dict[str, Any]

    def __post_init__(self):
        check_steps(" ".join(self.command), self.flags)

    def words(self, **more) -> tuple[str, ...]:
        """The command with its flags and more of them, which win."""
        return (*self.command, *as_flags(self.flags | more))


@dataclasses.dataclass(frozen=True)
class Task(Command):
    """A task's command, and the grid that each row searches.

    Attributes:
      base: its entry in [tasks]; several tasks of one entry differ in
        `labels`.
      labels: how many training examples it uses, or `ALL`; "" = not said.
      search: flag -> its values; {} = one point, the flags as they are.
      by: column whose median says which point is best; "" = the task's first.
      in_place: it works in the folder of the pretraining (an evaluation of
        it), without a seed and a folder of its own.
    """

    base: str = ""
    labels: str = ""
    search: dict[str, tuple] = dataclasses.field(default_factory=dict)
    by: str = ""
    in_place: bool = False

    def points(self) -> list[dict[str, Any]]:
        """Flags of every combination, the last flag's values fastest."""
        values = itertools.product(*self.search.values())
        return [dict(zip(self.search, v, strict=True)) for v in values]

    def named(self, name: str) -> str:
        """A name of the entry, as this task has it.

        >>> Task((), {}, "trec", "200").named("TREC")
        'TREC-200'
        """
        return f"{name}-{self.labels}" if self.labels and name else name


def check_steps(where: str, flags: dict[str, Any]) -> None:
    """UserError where flags have `train_steps` that are no number of steps."""
    steps = flags.get("train_steps", 1)
    if type(steps) is not int or steps < 1:
        raise UserError(
            f"{where}: `train_steps` must be a whole number from 1 on, found "
            f"{steps!r}"
        )


def refuse_given(where: str, flags: Iterable[str], names: Sequence[str]):
    """UserError where a file has a flag that the runner gives: it would not count."""
    for flag in names:
        if flag in flags:
            raise UserError(
                f"{where}: `{flag}` is set by the runner: leave it out"
            )


def given_of(in_place: bool) -> tuple[str, ...]:
    """Flags of a task that the runner gives."""
    return RUN[:1] if in_place else TUNING


def as_flags(values: dict) -> tuple[str, ...]:
    """--name=value of each; true and false as --name and --noname."""
    return tuple(
        f"--{'' if value else 'no'}{name}"
        if isinstance(value, bool)
        else f"--{name}={value}"
        for name, value in values.items()
    )


def command(value: dict) -> Command:
    """The entry `command`, and all others as its flags.

    Raises:
      UserError: it is no table.
    """
    flags = table("a section with a `command`", value)
    return Command(tuple(flags.pop("command").split()), flags)


def tasks_of(name: str, value: dict) -> dict[str, Task]:
    """[tasks.NAME]: itself, or NAME-N for each N of its `labels`.

    With fewer labels than all (0) its flags `few` count, too.

    Raises:
      UserError: `labels` are no different numbers.
    """
    flags = dict(value)
    few = table(f"tasks.{name}.few", flags.pop("few", {}))
    counts = flags.pop("labels", None)
    if counts is None and not few:
        return {name: _task_of(name, flags)}
    whole = isinstance(counts, tuple) and all(type(n) is int for n in counts)
    if not whole or not counts or min(counts) < 0 or _repeats(counts):
        raise UserError(
            f"tasks.{name}: `labels` must be a list of different numbers, "
            f"0 = all, found {counts!r}"
        )
    tasks = {}
    for count in counts:
        more = few | {"train_examples": count} if count else {}
        task = _task_of(name, flags | more)
        task = dataclasses.replace(task, labels=str(count or ALL))
        task = dataclasses.replace(task, by=task.named(task.by))
        tasks[task.named(name)] = task
    return tasks


def chosen(tasks: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The tasks of the file's entries `names`.

    Raises:
      UserError: a name is no entry.
    """
    entries = {n: getattr(task, "base", "") or n for n, task in tasks.items()}
    if unknown := sorted(set(names) - set(entries.values())):
        raise UserError(
            f"--tasks={','.join(names)}: there is no {unknown[0]!r} among "
            f"{', '.join(dict.fromkeys(entries.values()))}"
        )
    return {n: task for n, task in tasks.items() if entries[n] in names}


def _task_of(name: str, value: dict) -> Task:
    """[tasks.NAME] with its [tasks.NAME.search].

    Raises:
      UserError: a flag's values are no list of texts and numbers that differ.
    """
    flags = dict(value)
    search = table(f"tasks.{name}.search", flags.pop("search", {}))
    by, in_place = search.pop("by", ""), flags.pop("in_place", False)
    names = given_of(in_place)
    refuse_given(f"tasks.{name}", flags, names)
    refuse_given(f"tasks.{name}.search", search, names)
    for flag, values in search.items():
        if not isinstance(values, tuple) or not values or _repeats(values):
            raise UserError(
                f"tasks.{name}.search: `{flag}` must be a list of different "
                f"values, found {values!r}"
            )
        for v in values:
            check_steps(f"tasks.{name}.search", {flag: v})
            if not isinstance(v, (int, float, str)) or "/" in str(v):
                raise UserError(
                    f"tasks.{name}.search: `{flag}` must have numbers or texts "
                    f'without "/" (they name folders), found {v!r}'
                )
    tuning = command(flags)
    return Task(tuning.command, tuning.flags, name, "", search, by, in_place)


def table(what: str, value: Any) -> dict[str, Any]:
    """A copy of an entry that must be a table.

    Raises:
      UserError: it is none.
    """
    if not isinstance(value, dict):
        raise UserError(f"{what} must be a table, found {value!r}")
    return dict(value)


def _repeats(values: Iterable) -> bool:
    texts = list(map(str, values))
    return len(set(texts)) < len(texts)


def timed(words: tuple[str, ...], steps: int) -> tuple[str, ...]:
    """A command for so many steps, which may be fewer than its schedule's.

    >>> timed(("x", "--decay_steps=900"), 20)
    ('x', '--decay_steps=900', '--train_steps=20', '--decay_steps=1')
    """
    more = [
        f"--{name}={value}"
        for name, value in _SHORTEST.items()
        if any(w.startswith(f"--{name}=") for w in words)
    ]
    return (*words, f"--train_steps={steps}", *more)


def inputs_of(
    commands: Iterable[tuple[str, ...]], makers: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """The makers whose files the commands read, and theirs, in their order.

    >>> makers = [("x", "--output_dir=/o/text"), ("y", "--output_dir=/o/new")]
    >>> inputs_of([("z", "--input_glob=/o/text/*.txt")], makers)
    (('x', '--output_dir=/o/text'),)
    """
    needed: set[tuple[str, ...]] = set()
    waiting = list(commands)
    while waiting:
        words = waiting.pop()
        read = {m for m in makers if m != words and _reads(words, m)} - needed
        needed |= read
        waiting += read
    return tuple(maker for maker in makers if maker in needed)


def _reads(words: tuple[str, ...], maker: tuple[str, ...]) -> bool:
    """Whether a flag names something below what the maker writes."""
    made = [
        w.split("=", 1)[1]
        for w in maker
        if w.startswith(tuple(f"--{name}=" for name in _MADE))
    ]
    places = [re.compile(rf"{re.escape(m)}(?=[/.,]|$)") for m in made if m]
    return any(place.search(w) for place in places for w in words)


def number_in(path: str, name: str) -> float:
    """A number that a command left, as `Job.reads` names it.

    Raises:
      OSError, ValueError, KeyError, IndexError, TypeError: there is none.
    """
    with open(path, encoding="utf-8") as f:
        text = f.read()
    if path.endswith(".txt"):
        found = re.findall(rf"^{re.escape(name)} (\S+)", text, re.M)[-1]
    else:
        if path.endswith(".jsonl"):
            text = text.splitlines()[-1]
        found = json.loads(text)[name]
    if not math.isfinite(number := float(found)):  # it has no place in a table
        raise ValueError(f"{number} is not finite")
    return number


def flag_of(words: tuple[str, ...], name: str) -> str:
    """The value of a command's flag, the last one given.

    Raises:
      UserError: it is missing.
    """
    matching = [w for w in words if w.startswith(f"--{name}=")]
    if not matching:
        raise UserError(f"{' '.join(words)}: `{name}` is missing")
    return matching[-1].split("=", 1)[1]
