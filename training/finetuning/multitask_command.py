"""run_multitask.py from its flags to its end: tasks together, a task alone."""

import dataclasses
from collections.abc import Callable

from training.finetuning import multitask, preflight, sources
from training.finetuning import run as finetune
from training.finetuning.classifier import ClassifierJob


class MultiTaskCommand:
    """Runs what the flags ask for.

    Args:
      read: `flags.multitask_flags.read`.
      export: `serving.export.export_model`.
      say: takes every line.
    """

    def __init__(self, read: Callable[..., dict], export=None, say=print):
        self._read = read
        self._export = export
        self._say = say

    def joint(self, **changes) -> dict:
        """All tasks together, some flags changed; no predictions of theirs."""
        return self.together(
            self._read(do_predict=False, do_export=False, **changes)
        )

    def together(self, fields: dict) -> dict:
        """Task -> split -> metrics of tasks on one encoder."""
        tasks, options = self._tasks(fields)
        return multitask.run(
            tasks,
            fields["settings"],
            options,
            self._export,
            fields["flags"],
            self._say,
        )

    def alone(self, task: str, **changes) -> dict:
        """Split -> metrics of one task's own run."""
        fields = self._read(tasks=(task,), **changes)
        (only,), options = self._tasks(fields)
        return finetune.run(
            only.job, options, self._export, fields["flags"], self._say
        )

    def _tasks(self, fields: dict):
        """The jobs of all tasks, and the options with what the encoder says."""
        options, found = fields["options"], []
        preflight.check_places(options)
        for name, data in fields["data"].items():
            features = fields["features"][name]
            spiece = sources.find_spiece(options, features.spiece_model_file)
            text = sources.find_text(
                options, spiece, features.text, lambda line: None
            )
            settled, layout = sources.settle(options)
            features = dataclasses.replace(
                features, spiece_model_file=spiece, text=text, layout=layout
            )
            # Which metric is the best one's is the tasks' affair together;
            # --schedule, where tasks are alone, too, has no --best_metric.
            own = dataclasses.replace(settled, best_metric="")
            owner = ClassifierJob(data, features, own)
            found.append(multitask.Task(name, owner, owner.build()))
        return found, settled
