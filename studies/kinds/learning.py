"""A study of how fast rows learn (`kind = "learning"`).

Every row is a pretraining that is evaluated on the same held-out targets while it
runs. Its table says, too, what is reached in equal seconds: of each row the step
of one system is timed (`benchmarks.systems`), all of them in turn. The picture
has the curves over steps and over seconds; `learning.json` has their numbers.
"""

import dataclasses
import functools

import numpy as np

from benchmarks.compare import harness
from benchmarks.compare.harness import System
from benchmarks.systems.workloads import Workload
from common import figures, files
from common.errors import UserError
from data.pretraining.manifest import PretrainingManifest
from modeling.checkpoints import weights
from studies.runner.seed_table import Row
from studies.runner.study import Study
from studies.runner.study_file import ResultColumn, StudyOptions
from studies.runner.study_records import EVALUATIONS
from studies.runner.study_rows import RowOptions

_STEP, _STEPS, _THEN = "s per step", "steps in equal seconds", "held out then"
# Sizes of a workload -> flags of [pretrain].
_SIZES = {
    "layers": "n_layer",
    "batch": "train_batch_size",
    "memory": "mem_len",
    "width": "d_model",
    "heads": "n_head",
    "inner": "d_inner",
}


@dataclasses.dataclass(frozen=True)
class LearningOptions(StudyOptions):
    """A study and what is timed.

    Attributes:
      systems: key of a row -> module of the system whose step is its; {} =
        nothing is timed.
      rounds: steps of each that are timed.
    """

    systems: dict[str, str] = dataclasses.field(default_factory=dict)
    rounds: int = 20

    def __post_init__(self):
        super().__post_init__()
        if not self.columns_of_curves():
            raise UserError(
                f'wanted a column of "pretrain" with file = "{EVALUATIONS}"'
            )
        if any(row.start for row in self.rows):
            raise UserError('kind = "learning" pretrains: no row has a `start`')
        for row in self.rows if self.systems else ():
            flags = self.flags_of(row)
            missing = {*_SIZES.values(), "data_dir"} - set(flags)
            if row.key not in self.systems or missing:
                what = f"`{min(missing)}`" if missing else "one of [systems]"
                raise UserError(f"row {row.name!r}: {what} is missing")

    def columns_of_curves(self) -> list[ResultColumn]:
        """Those that are read from evaluations; the first one's is drawn."""
        columns = self.columns_of("pretrain")
        return [c for c in columns if c.file == EVALUATIONS]


# Of a pretraining: "steps" at which it was evaluated, and "losses" there.
Curve = dict[str, list[float]]


class Learning(Study):
    """The jobs of a study, the steps that are timed, the curves."""

    options: LearningOptions

    def write(self, rows: list[Row]) -> list[str]:
        """Writes the report and its curves; their paths."""
        path = self.path("learning.json")
        value = {"curves": self.curves(), "seconds": self.seconds}
        files.write_json(path, value)
        return [*super().write(rows), path]

    def curves(self) -> dict[str, dict[str, Curve]]:
        """Row -> seed -> curve of what is done, and not elsewhere."""
        metric = self.options.columns_of_curves()[0].metric
        curves_by_row: dict[str, dict[str, Curve]] = {}
        for row in self.options.rows:
            own = curves_by_row.setdefault(row.key, {})
            for seed in range(self.options.pretrain_seeds):
                name = f"{row.key}-{seed}"
                # A table alone has no curves.
                if "error" in self.results.get(name, {"error": ""}):
                    continue
                if evaluations := weights.read_log(self.path(name, "run")):
                    losses = [row[metric] for row in evaluations.values()]
                    own[str(seed)] = {
                        "steps": list(evaluations),
                        "losses": losses,
                    }
        return curves_by_row

    @functools.cached_property
    def seconds(self) -> dict[str, float]:
        """Row -> median of a step of its system, in turn; {} without."""
        path, timed = self.path("speed.json"), self._timed()
        if not timed:
            return {}
        if files.exists(path):
            kept = files.read_json_object(path, "remove it to time again")
            if kept.get("timed") == timed:
                return kept["seconds"]
            if self.only_read:
                self._say(
                    f"note: {path} is of other steps: run without --table"
                )
        if self.only_read:
            return {}
        self._say("timing the steps")
        systems = [
            System(
                row.key, self.options.systems[row.key], sizes=self._sizes(row)
            )
            for row in self.options.rows
        ]
        seconds = {}
        workload, rounds = Workload(dropout=0.0), self.options.rounds
        for result in harness.compare(systems, workload, rounds):
            if result.error:
                self._say(f"timing {result.name} failed: {result.error}")
                return {}
            seconds[result.name] = float(np.median(result.seconds))
        files.write_json(path, {"timed": timed, "seconds": seconds})
        return seconds

    def _timed(self) -> dict[str, list]:
        """Row -> system, rounds and flags that its step depends on."""
        if not self.options.systems:
            return {}
        rounds, timed = self.options.rounds, {}
        for row in self.options.rows:
            flags = self.options.flags_of(row)
            own = {flag: flags[flag] for flag in _SIZES.values()}
            timed[row.key] = [self.options.systems[row.key], rounds, own]
        return timed

    def _sizes(self, row: RowOptions) -> dict[str, int]:
        """Of a row's step: its model's, and those of its records."""
        flags = self.options.flags_of(row)
        manifest = PretrainingManifest.load(flags["data_dir"])
        return {k: flags[flag] for k, flag in _SIZES.items()} | {
            "length": manifest.seq_len,
            "vocab": manifest.vocab_size,
            "predict": manifest.num_predict,
        }

    def shown(self, rows: list[Row]) -> tuple[StudyOptions, list[Row]]:
        """With what is reached in equal seconds, where steps are timed."""
        seconds, curves = self.seconds, self.curves()
        if not seconds:
            return self.options, rows
        steps = {
            row.key: self.options.flags_of(row)["train_steps"]
            for row in self.options.rows
        }
        reached = equal_seconds(steps, seconds)
        timed = []
        for options, row in zip(self.options.rows, rows, strict=True):
            key = options.key
            values = {
                _STEP: {"all": seconds[key]},
                _STEPS: {"all": reached[key]},
                _THEN: {
                    seed: float(np.interp(reached[key], *curve.values()))
                    for seed, curve in curves[key].items()
                },
            }
            values = {name: of for name, of in values.items() if of}
            timed.append(dataclasses.replace(row, values=row.values | values))
        columns = (
            ResultColumn(_STEP, higher=False, compare=False),
            ResultColumn(_STEPS, digits=0, compare=False),
            ResultColumn(_THEN, higher=False),
        )
        columns = (*self.options.columns, *columns)
        return dataclasses.replace(self.options, columns=columns), timed

    def draw(self, rows: list[Row]) -> list[str]:
        """Held-out loss over steps and, where they are timed, over seconds."""
        curves, seconds = self.curves(), self.seconds
        if not any(curves.values()):
            return []
        paces = {"steps": dict.fromkeys(curves, 1.0)}
        if seconds:
            paces["seconds of training, at the pace of each row"] = seconds
        size = (5.5 * len(paces), 4)
        figure, (axes,) = figures.new(1, len(paces), figsize=size)
        for axis, (label, pace) in zip(axes, paces.items(), strict=True):
            for color, (row, own) in enumerate(
                zip(rows, curves.items(), strict=True)
            ):
                for i, curve in enumerate(own[1].values()):
                    axis.plot(
                        np.array(curve["steps"]) * pace[own[0]],
                        curve["losses"],
                        color=f"C{color}",
                        label=row.name if i == 0 else None,
                    )
            axis.set(xlabel=label, ylabel="held-out loss, nats per target")
            axis.set_xlim(left=0)
            axis.legend()
        counts = sorted({len(own) for own in curves.values()})
        figures.caption(
            figure,
            f"One line per seed, n = {' to '.join(map(str, counts))} seeds of "
            "each colour. No bars.",
            self.options.command,
        )
        return figures.save(figure, self.path("learning"))


def equal_seconds(
    steps: dict[str, int], seconds: dict[str, float]
) -> dict[str, float]:
    """Steps of each row when the first one has done all of its own.

    >>> equal_seconds({"a": 900, "b": 900}, {"a": 0.1, "b": 0.3})
    {'a': 900.0, 'b': 300.0}
    """
    end = min(steps[key] * seconds[key] for key in steps)
    return {key: end / seconds[key] for key in steps}
