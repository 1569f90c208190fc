"""run_multitask.py from its flags to its end: tasks together, a task alone."""

import dataclasses
import functools
from collections.abc import Callable

from data.finetuning.classifier.task import ClassifierTask
from training.finetuning import multitask, schedule
from training.finetuning.command import load
from training.finetuning.driver import Driver
from training.finetuning.outputs import silent


def run(
    read: Callable[..., dict],
    fields: dict,
    exporter=None,
    say: Callable[[str], None] = print,
) -> dict:
    """Does what the flags ask for.

    Args:
      read: `flags.tasks.multitask_flags.read`.
      exporter: `serving.export`.

    Returns:
      Task -> split -> metrics.
    """
    export = exporter.export_model if exporter else None
    if not fields["settings"].schedule:
        return together(fields, export, say)
    options = fields["options"]
    home, start = options.run.model_dir, options.run.init_checkpoint

    def joint(**changes) -> dict:
        """All tasks together; no predictions of theirs."""
        part = read(do_predict=False, do_export=False, **changes)
        return together(part, export, say)

    alone = functools.partial(_alone, read, export, say)
    results = schedule.run_paper(home, start, joint, alone)
    if results and options.do_predict:
        schedule.write_submission(home)
    return results


def together(fields: dict, export=None, say=print) -> dict:
    """Task -> split -> metrics of tasks on one encoder."""
    tasks, options = _load(fields)
    settings, flags = fields["settings"], fields["flags"]
    return multitask.run(tasks, settings, options, export, flags, say)


def _alone(read, export, say, task: str, **changes) -> dict:
    """Split -> metrics of one task's own run."""
    fields = read(tasks=(task,), **changes)
    tasks, options = _load(fields)
    return Driver(tasks[task], options, export, fields["flags"], say).run()


def _load(fields: dict):
    """All tasks, and the options with what the encoder says."""
    options, tasks = fields["options"], {}
    # Which metric is the best one's is the tasks' affair together;
    # --schedule, where tasks are alone, too, has no --best_metric.
    task_options = dataclasses.replace(options, best_metric="")
    for name, data in fields["data"].items():
        tasks[name], settled = load(
            ClassifierTask, silent, task_options, data, fields["features"][name]
        )
    best = options.best_metric
    return tasks, dataclasses.replace(settled, best_metric=best)
