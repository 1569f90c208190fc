"""run_multitask.py from its flags to its end: tasks together, a task alone.

`--schedule=paper` is GLUE as section 3.5 of the XLNet paper trained it: the four
largest sets together; the other five from these weights; the four alone from
the pretrained ones; then the test sets of all, MNLI's diagnostic set among
them, as one submission. Each part is a run with a folder of its own, so the
same command goes on with the part that was stopped.
"""

import dataclasses
import os
from collections.abc import Callable

from common import files
from data.finetuning.classifier import submission
from data.finetuning.classifier.task import ClassifierTask
from modeling.ops import graph_memory
from training.finetuning import multitask
from training.finetuning.command import load
from training.finetuning.driver import Driver
from training.finetuning.options import JOINT, OTHERS, TOGETHER, FinetuneOptions
from training.finetuning.outputs import silent

ZIP = "submission.zip"


def run(
    read: Callable[..., dict],
    fields: dict,
    exporter=None,
    say: Callable[[str], None] = print,
) -> dict:
    """Does what the flags ask for.

    Returns task -> split -> metrics; {} of a dry run. Raises Stopped: a part was
    stopped on request.
    """
    export = exporter.export_model if exporter else None
    options = fields["options"]
    if not fields["settings"].schedule:
        return together(fields, export, say)
    results = run_paper(read, options, export, say)
    if results and options.do_predict:
        write_submission(options.run.model_dir, say, options.predict_dir)
    return results


def run_paper(
    read: Callable[..., dict], options: FinetuneOptions, export, say
) -> dict[str, dict]:
    """All parts of the schedule in turn; returns as `run` does."""
    home, start = options.run.model_dir, options.run.init_checkpoint
    joint = os.path.join(home, TOGETHER)
    say(f"--- {', '.join(JOINT)} together in {joint}")
    # All tasks together; no predictions of theirs.
    fields = read(
        do_predict=False,
        do_export=False,
        init_checkpoint=start,
        **_folders(options, TOGETHER),
    )
    with graph_memory.released():
        trained = together(fields, export, say)
    results: dict[str, dict] = {}
    for task in (*OTHERS, *JOINT) if trained else ():
        source = joint if task in OTHERS else start
        folders = _folders(options, task)
        say(f"--- {task} from {source} in {folders['model_dir']}")
        fields = read(tasks=(task,), init_checkpoint=source, **folders)
        with graph_memory.released():  # before the next task has its own
            results[task] = alone(task, fields, export, say)
    return results


def _folders(options: FinetuneOptions, part: str) -> dict[str, str]:
    """Flags of the folders of a part: each has its own."""
    folders = {"model_dir": os.path.join(options.run.model_dir, part)}
    for flag in ("predict_dir", "export_dir"):
        if folder := getattr(options, flag):
            folders[flag] = os.path.join(folder, part)
    return folders


def together(fields: dict, export=None, say=print) -> dict:
    """Task -> split -> metrics of tasks on one encoder."""
    tasks, options = _load(fields)
    settings, flags = fields["settings"], fields["flags"]
    return multitask.run(tasks, settings, options, export, flags, say)


def alone(task: str, fields: dict, export, say) -> dict:
    """Split -> metrics of one task's own run."""
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


def write_submission(home: str, say, predict_dir: str = "") -> str | None:
    """The zip of what the parts predicted; None where test sets are missing.

    The parts' folders of predictions are in `predict_dir`; "" = in their models'.
    Raises UserError: a disk or file that cannot be written.
    """
    paths = {}
    for task in (*OTHERS, *JOINT):
        folder = os.path.join(home, task, "predictions")
        if predict_dir:
            folder = os.path.join(predict_dir, task)
        for name in submission.ROWS:
            path = os.path.join(folder, name)
            if files.exists(path):
                paths[name] = path
    missing = sorted(set(submission.ROWS) - set(paths))
    if missing:
        say(
            f"no submission: {', '.join(missing)} missing, their test sets are "
            "not in --data_dir"
        )
        return None
    output = os.path.join(home, ZIP)
    submission.write(paths, output)
    problems = submission.validate(output)
    for problem in problems:
        say(f"note: GLUE's server would refuse {output}: {problem}")
    say(
        f"wrote {output}"
        + ("" if problems else ", as GLUE's server expects it")
    )
    return output
