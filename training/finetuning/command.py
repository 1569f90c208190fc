"""A fine-tuning command from its flags to its end: one run, several, a vote.

`run_classifier.py` and its like say how their flags are read and which task
they make; one run, a run per seed (`--num_seeds`) and models that answer
together (`--ensemble`) are the same for all of them.
"""

import dataclasses
import os
from collections.abc import Callable

from common import files
from common.contract.symbols import is_cls_first
from common.contract.task_spec import FILE_NAME, TaskSpec
from common.errors import UserError
from common.summary import describe
from data.finetuning.options import FeatureOptions
from data.finetuning.task import Task
from modeling.ops import graph_memory
from training.finetuning import ensemble, preflight, sources
from training.finetuning.driver import Driver, Results
from training.finetuning.options import FinetuneOptions, seed_folder
from training.finetuning.outputs import silent, writes

SEEDS = "seeds.json"


def run(
    make: Callable[..., Task],
    read: Callable[..., dict],
    fields: dict,
    exporter=None,
    say: Callable[[str], None] = print,
) -> Results:
    """Does what the flags ask for; split -> metrics of the evaluation.

    Those of the run, of the ensemble, or the medians over the seeds.

    Args:
      make: data options, features, options, trained -> the task.
      read: values of flags that are changed -> arguments of `prepare`.
    """
    options = fields["options"]
    say = say if writes(options) else silent
    if options.ensemble:
        return _ensemble(make, read, options, say)
    if options.num_seeds > 1:
        return _seeds(make, read, options, exporter, say)
    return prepare(make, exporter, say, **fields).run()


def prepare(
    make: Callable[..., Task],
    exporter=None,
    say: Callable[[str], None] = print,
    *,
    options: FinetuneOptions,
    data,
    features: FeatureOptions,
    trained: TaskSpec | None = None,
    notes: tuple[str, ...] = (),
    flags: dict | None = None,
) -> Driver:
    """A run that can start: vocabulary and settings found, splits loaded."""
    for line in notes:
        say(line)
    task, options = load(make, say, options, data, features, trained)
    if exporter:
        exporter.check_exportable(task.spec(), options.do_export)
    export = exporter.export_model if exporter else None
    return Driver(task, options, export, flags, say)


def load(
    make, say, options, data, features, trained=None
) -> tuple[Task, FinetuneOptions]:
    """The task with its splits, and options with what its encoder says."""
    spiece = sources.find_spiece(options, features.spiece_model_file)
    text = sources.find_text(options, spiece, features.text, say)
    preflight.check_places(options)
    options, layout = sources.settle(options, spiece)
    before = trained.data_options.get("layout", "") if trained else ""
    if is_cls_first(layout) and is_cls_first(before):
        layout = before  # two texts were joined so in training
    features = dataclasses.replace(
        features, spiece_model_file=spiece, text=text, layout=layout
    )
    return make(data, features, options, trained).load(), options


def _ensemble(make, read, options: FinetuneOptions, say) -> Results:
    members = []
    preflight.check_outputs(options)
    for folder in options.ensemble:
        if not files.exists(os.path.join(folder, FILE_NAME)):
            raise UserError(
                f"--ensemble: {folder} holds no {FILE_NAME}: give the "
                "--model_dir of a trained model"
            )
        fields = read(model_dir=folder, predict_ckpt="")
        for line in fields.pop("notes", ()):
            say(line)
        fields.pop("flags", None)
        task, settled = load(make, say, **fields)
        members.append(ensemble.Member(folder, task, settled))
    return ensemble.run(members, options, say)


def _seeds(make, read, options: FinetuneOptions, exporter, say) -> Results:
    """A run per seed; those that were trained before are only evaluated."""
    first, home = options.run.strategy.seed, options.run.model_dir
    runs: dict[int, Results] = {}
    for seed in range(first, first + options.num_seeds):
        changes = {"seed": seed, "model_dir": seed_folder(home, seed)}
        for flag in ("predict_dir", "export_dir"):
            if folder := getattr(options, flag):
                changes[flag] = seed_folder(folder, seed)
        say(f"--- seed {seed} in {changes['model_dir']}")
        with graph_memory.released():  # before the next run has its own
            runs[seed] = prepare(make, exporter, say, **read(**changes)).run()
        if not runs[seed]:
            return {}  # a dry run
    summary = summarize(list(runs.values()))
    for line in summary_lines(summary):
        say(line)
    of_all = {"seeds": {str(s): r for s, r in runs.items()}, "of": summary}
    if writes(options):
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
