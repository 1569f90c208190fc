"""Flags of the task's own data.

A command that fine-tunes one kind of task is an object of this module.
"""

import dataclasses

from absl.testing import flagsaver

from common.contract.task_spec import TaskSpec
from common.references import resolve
from data.finetuning.options import DataOptions
from flags import flag_values
from flags.tasks import finetune_flags, tuning_flags
from flags.training import common_flags


@dataclasses.dataclass(frozen=True)
class TaskCommand:
    """`run_KIND.py`: its flags and what it does with them.

    Attributes:
      kind: of `task_settings.ALL`.
      data: the task's own options; their settings are its flags.
      task: "module:name" of its `data.finetuning.task.Task`.
    """

    kind: str
    data: type[DataOptions]
    task: str
    max_seq_length: int
    eval_batch_size: int = 16

    def define(self) -> None:
        """Registers the flags."""
        tuning_flags.define(
            self.max_seq_length, eval_batch_size=self.eval_batch_size
        )
        flag_values.define(self.data, task_name="", data_dir="")

    def data_options(self, trained: TaskSpec | None = None) -> DataOptions:
        """The task's own options."""
        del trained
        return flag_values.build(self.data)

    def read(self, **changes) -> dict:
        """Everything that the flags say.

        Args:
          **changes: values of flags, for this reading alone.

        Returns:
          Arguments of `training.finetuning.command.prepare`.

        Raises:
          UserError: a flag that does not fit the others or the trained model.
        """
        with flagsaver.flagsaver(**changes):
            lines = finetune_flags.apply_recipe(f"run_{self.kind}.py")
            trained, notes = finetune_flags.adopt(self.kind)
            options = tuning_flags.from_flags()
            data = self.data_options(trained)
            features = finetune_flags.features_from_flags()
            data.check_run(options, features)
            return {
                "options": options,
                "data": data,
                "features": features,
                "trained": trained,
                "notes": (*lines, *notes),
                "flags": common_flags.all_flags(),
            }

    def main(self) -> None:
        """Reads the flags and runs the task."""
        fields = self.read()
        # Named, not imported: what they load needs seconds.
        run = resolve("training.finetuning.command:run")
        run(resolve(self.task), self.read, fields, resolve("serving.export"))
