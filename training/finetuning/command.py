"""A fine-tuning command from its flags to its end: one run, several, a vote.

`run_classifier.py` and its like say how their flags are read (`read`) and which
job they make (`make`); one run, a run per seed (`--num_seeds`) and models that
answer together (`--ensemble`) are the same for all of them.
"""

import dataclasses
import os
from collections.abc import Callable

from common import files
from common.errors import UserError
from common.summary import describe
from data.finetuning.options import FeatureOptions
from data.task_spec import FILE_NAME, TaskSpec
from modeling.ops import graph_memory
from training.finetuning import ensemble, preflight, sources
from training.finetuning import run as finetune
from training.finetuning.job import TaskJob
from training.finetuning.options import FinetuneOptions

SEEDS = "seeds.json"
Results = dict[str, dict[str, float]]


@dataclasses.dataclass(frozen=True)
class Request:
    """What the flags ask for.

    Attributes:
      options: what to do.
      data: the task's own options.
      features: how text becomes features, as far as the flags say it.
      trained: task.json of the trained model.
      notes: lines about where settings come from.
      flags: for `run.json`.
    """

    options: FinetuneOptions
    data: object
    features: FeatureOptions
    trained: TaskSpec | None = None
    notes: tuple[str, ...] = ()
    flags: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Command:
    """A fine-tuning command.

    Attributes:
      read: values of flags that are changed -> request.
      make: data options, features, options, trained -> the task's job.
      export: `serving.export.export_model`.
      check_exportable: raises for a task that cannot be exported.
      say: takes every line.
    """

    read: Callable[..., Request]
    make: Callable[..., TaskJob]
    export: Callable[..., str] | None = None
    check_exportable: Callable[[TaskSpec, bool], None] | None = None
    say: Callable[[str], None] = print

    def __call__(self, request: Request) -> Results:
        """Does what is asked.

        Args:
          request: of the flags as they were given.

        Returns:
          Split -> metrics of the evaluation: of the run, of the ensemble, or
          the medians over the seeds.

        Raises:
          UserError: anything the user can put right.
        """
        if request.options.ensemble:
            return self._ensemble(request)
        if request.options.num_seeds > 1:
            return self._seeds(request)
        return self._one(request)

    def prepare(self, request: Request) -> tuple[TaskJob, FinetuneOptions]:
        """The job of a request, its vocabulary and settings found."""
        for line in request.notes:
            self.say(line)
        options, features = request.options, request.features
        spiece = sources.find_spiece(options, features.spiece_model_file)
        text = sources.find_text(options, spiece, features.text, self.say)
        preflight.check_places(options)
        options, layout = sources.settle(options)
        features = dataclasses.replace(
            features, spiece_model_file=spiece, text=text, layout=layout
        )
        task = self.make(request.data, features, options, request.trained)
        return task, options

    def _one(self, request: Request) -> Results:
        task, options = self.prepare(request)
        job = task.build()
        if self.check_exportable:
            self.check_exportable(job.spec, options.do_export)
        return finetune.run(job, options, self.export, request.flags, self.say)

    def _ensemble(self, request: Request) -> Results:
        members = []
        for folder in request.options.ensemble:
            if not files.exists(os.path.join(folder, FILE_NAME)):
                raise UserError(
                    f"--ensemble: {folder} holds no {FILE_NAME}: give the "
                    "--model_dir of a trained model"
                )
            asked = self.read(model_dir=folder, predict_ckpt="")
            task, options = self.prepare(asked)
            members.append(ensemble.Member(folder, task.build(), options))
        return ensemble.run(members, request.options, self.say)

    def _seeds(self, request: Request) -> Results:
        """A run per seed; those that were trained before are only evaluated."""
        options = request.options
        first, home = options.run.strategy.seed, options.run.model_dir
        found: dict[int, Results] = {}
        for seed in range(first, first + options.num_seeds):
            name = f"seed_{seed}"
            changes = {"seed": seed, "model_dir": os.path.join(home, name)}
            for flag in ("predict_dir", "export_dir"):
                if folder := getattr(options, flag):
                    changes[flag] = os.path.join(folder, name)
            self.say(f"--- seed {seed} in {changes['model_dir']}")
            with graph_memory.released():  # before the next run has its own
                found[seed] = self._one(self.read(**changes))
            if not found[seed]:
                return {}  # stopped on request, or a dry run
        summary = summarize(list(found.values()))
        for line in summary_lines(summary):
            self.say(line)
        of_all = {"seeds": {str(s): r for s, r in found.items()}, "of": summary}
        if finetune.writes(options):
            files.write_json(os.path.join(home, SEEDS), of_all)
        return {
            split: {name: v["median"] for name, v in metrics.items()}
            for split, metrics in summary.items()
        }


def summarize(results: list[Results]) -> dict[str, dict[str, dict]]:
    """Split -> metric -> n, median, mean, sample deviation (0 of one), ends."""
    summary: dict[str, dict[str, dict]] = {}
    for split in dict.fromkeys(s for r in results for s in r):
        summary[split] = {}
        for name in dict.fromkeys(n for r in results for n in r.get(split, ())):
            values = [
                r[split][name] for r in results if name in r.get(split, ())
            ]
            summary[split][name] = describe(values)
    return summary


def summary_lines(summary: dict[str, dict[str, dict]]) -> list[str]:
    """`summarize` as lines."""
    return [
        f"{split} {name}: median {v['median']:.5g}, mean {v['mean']:.5g} "
        f"+- {v['sd']:.3g} ({v['least']:.5g} to {v['most']:.5g}, "
        f"{v['n']} seeds)"
        for split, metrics in summary.items()
        for name, v in metrics.items()
    ]
