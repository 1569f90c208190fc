"""What a search draws its trials from, and how it draws them (Optuna's TPE).

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (2011):
settings are proposed where those of good trials are denser than those of bad
ones. Optuna, https://optuna.org, implements it.
"""

import dataclasses
import statistics
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from common import optional
from common.errors import UserError
from studies.runner.study_rows import RowOptions

RANDOM = 10  # trials that are drawn before the results of others count
_RANGE = {"low", "high", "log"}
_CHOICE = {"records", "pretrain", "drop", "tasks"}
_ASKED = 20  # times for a trial that differs from all others
_DIGITS = 3  # of a number that is drawn from a range
Settings = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One entry of [space].

    Attributes:
      name: a flag of [pretrain], or of the choices.
      values: numbers or texts to choose from, names of `choices` included;
        () = a range.
      choices: name -> what a row has with it; {} = the value is the flag's.
      low, high: ends of the range, both included; integers, if both are.
      log: equal ratios are equally likely, not equal differences.
    """

    name: str
    values: tuple[Any, ...] = ()
    choices: dict[str, RowOptions] = dataclasses.field(default_factory=dict)
    low: float = 0.0
    high: float = 0.0
    log: bool = False

    def holds(self, value: Any) -> bool:
        """Whether the search may draw it."""
        if self.values:
            return value in self.values
        return type(value) in (int, float) and self.low <= value <= self.high

    def distribution(self, optuna: ModuleType) -> Any:
        """As Optuna has it."""
        kinds = optuna.distributions
        if self.values:
            return kinds.CategoricalDistribution(self.values)
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        kind = kinds.IntDistribution if whole else kinds.FloatDistribution
        return kind(self.low, self.high, log=self.log)

    def rounded(self, value: Any) -> Any:
        """With few digits, within the range."""
        if self.values or isinstance(value, int):
            return value
        short = float(f"{value:.{_DIGITS}g}")
        return min(max(short, self.low), self.high)


def read(entries: dict[str, Any]) -> tuple[Setting, ...]:
    """[space]: a list of values, `{low, high}`, or named choices of flags.

    Raises:
      UserError: an entry is none of them, a range has no two ends, or two
        entries have the same flag.
    """
    if not isinstance(entries, dict) or not entries:
        raise UserError(f"[space] must have settings, found {entries!r}")
    space = tuple(_setting(name, value) for name, value in entries.items())
    owners: dict[str, str] = {}
    for setting in space:
        for flag in _flags(setting):
            owner = owners.setdefault(flag, setting.name)
            if owner != setting.name:
                raise UserError(
                    f"space.{owner} and space.{setting.name} both set {flag}: "
                    "keep one of them"
                )
    return space


def _flags(setting: Setting) -> set[str]:
    """What a row has from it: `pretrain.NAME`, `tasks.TASK.NAME`, ..."""
    if not setting.choices:
        return {f"pretrain.{setting.name}"}
    flags = set()
    for choice in setting.choices.values():
        parts = {"records": choice.records, "pretrain": choice.pretrain}
        parts |= {f"tasks.{k}": v for k, v in choice.tasks.items()}
        flags |= {f"{k}.{name}" for k, part in parts.items() for name in part}
        flags |= {f"pretrain.{name}" for name in choice.drop}
    return flags


def _setting(name: str, value: Any) -> Setting:
    wrong = UserError(
        f"space.{name}: wanted a list of different numbers or texts, "
        "{ low = , high = , log = } with low < high (above 0 with log), or "
        f"tables of flags with a name each, found {value!r}"
    )
    if isinstance(value, tuple):
        plain = all(isinstance(v, (int, float, str)) for v in value)
        if not plain or len(set(map(str, value))) < max(len(value), 1):
            raise wrong
        return Setting(name, value)
    if not isinstance(value, dict) or not value:
        raise wrong
    if all(isinstance(v, dict) for v in value.values()):
        if any(set(v) - _CHOICE for v in value.values()):
            raise wrong
        choices = {k: RowOptions(name=k, **v) for k, v in value.items()}
        return Setting(name, tuple(choices), choices)
    low, high, log = (value.get(k) for k in ("low", "high", "log"))
    ends = all(type(v) in (int, float) for v in (low, high))
    if set(value) - _RANGE or not ends or log not in (None, True, False):
        raise wrong
    if not low < high or (log and low <= 0):
        raise wrong
    return Setting(name, low=low, high=high, log=bool(log))


def row(name: str, space: Sequence[Setting], settings: Settings) -> RowOptions:
    """The row of a trial: `NAME setting=value ...`."""
    parts = {"records": {}, "pretrain": {}, "tasks": {}}
    drop: tuple[str, ...] = ()
    for setting in space:
        value = settings[setting.name]
        if not setting.choices:
            parts["pretrain"][setting.name] = value
            continue
        choice = setting.choices[value]
        drop += choice.drop
        parts["records"] |= choice.records
        parts["pretrain"] |= choice.pretrain
        for task, flags in choice.tasks.items():
            parts["tasks"][task] = parts["tasks"].get(task, {}) | flags
    shown = " ".join(f"{k}={v}" for k, v in settings.items())
    return RowOptions(f"{name} {shown}", drop=drop, **parts)


def draw(
    space: Sequence[Setting],
    before: Sequence[tuple[Settings, list[float]]],
    count: int,
    higher: bool,
    seed: int,
) -> list[Settings]:
    """Settings of `count` more trials, or of fewer: what is left of the space.

    They depend on the arguments alone: a search that was killed goes on with
    the trials that it would have had.

    Args:
      before: settings of earlier trials and their results, one per seed, of
        which the median counts; without one the trial has failed.
      higher: whether higher results are better.

    Raises:
      UserError: Optuna is not installed.
    """
    optuna = optional.load(
        "optuna", 'kind = "search"', "requirements-search.txt"
    )
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():  # `multivariate` may change, pins do not
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.TPESampler(
            seed=seed + len(before),
            multivariate=True,
            constant_liar=True,
            n_startup_trials=RANDOM,
        )
        study = optuna.create_study(
            direction="maximize" if higher else "minimize", sampler=sampler
        )
        distributions = {s.name: s.distribution(optuna) for s in space}
        states = optuna.trial.TrialState
        for settings, values in before:
            done = bool(values)
            trial = optuna.trial.create_trial(
                state=states.COMPLETE if done else states.FAIL,
                value=statistics.median(values) if done else None,
                params=settings,
                distributions=distributions,
            )
            study.add_trial(trial)
        known, drawn = [settings for settings, _ in before], []
        for _ in range(_ASKED * count):
            asked = study.ask(distributions).params
            settings = {s.name: s.rounded(asked[s.name]) for s in space}
            if settings not in known + drawn:
                drawn.append(settings)
            if len(drawn) == count:
                break
    return drawn
