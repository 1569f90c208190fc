"""Flags of the task's own data.

A command that fine-tunes one kind of task is an object of this module. TensorFlow
is imported after the flags are parsed: the processes that make features import
the command's file and do without it.
"""

import dataclasses

from absl import flags
from absl.testing import flagsaver

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.heads import CLASSIFIERS
from common.references import resolve
from data.finetuning.options import (
    ClassifierDataOptions,
    DataOptions,
    TaggingDataOptions,
)
from flags import flag_values
from flags.tasks import finetune_flags, head_flags, tuning_flags
from flags.training import common_flags

FLAGS = flags.FLAGS
_COLUMNS, _JSON_LINES = "columns of tokens", "JSON lines"
# Files of tags -> flags that no others follow.
_OF_TAGS = {(_COLUMNS,): ("text_column", "tag_column", "token_separator")}


@dataclasses.dataclass(frozen=True)
class TaskCommand:
    """`run_KIND.py`: its flags and what it does with them."""

    kind: str  # of `task_settings.ALL`
    # the task's own options; their settings are its flags
    data: type[DataOptions]
    task: str  # "module:name" of its `data.finetuning.task.Task`
    max_seq_length: int
    eval_batch_size: int = 16

    def define(self) -> None:
        """Registers the flags."""
        tuning_flags.define(
            self.max_seq_length,
            f"run_{self.kind}.py",
            eval_batch_size=self.eval_batch_size,
        )
        flag_values.define(self.data, task_name="", data_dir="")

    def data_options(self, trained: TaskSpec | None = None) -> DataOptions:
        """The task's own options."""
        return flag_values.build(self.data)

    def read(self, **changes) -> dict:
        """What the flags say, for `training.finetuning.command.prepare`.

        Raises UserError: a flag that does not fit the others or the trained
        model.
        """
        with flagsaver.flagsaver(**changes):
            lines = finetune_flags.apply_recipe(f"run_{self.kind}.py")
            trained, notes = finetune_flags.adopt(self.kind)
            finetune_flags.check_read(self.kind)
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


class ClassifierCommand(TaskCommand):
    """With a task by name, which a trained model may say."""

    def define(self) -> None:
        """Registers the flags."""
        flag_values.often |= {"is_regression", "multi_label"}
        head_flags.define()
        super().define()  # its own data come last, and first in --help

    def data_options(
        self, trained: TaskSpec | None = None
    ) -> ClassifierDataOptions:
        """The task; that of `trained`, and its head, where none is asked for.

        Raises UserError: no task is known, or flags that exclude each other.
        """
        name = FLAGS.task_name
        if not name and trained is None:
            raise UserError(
                "--task_name must be given: --model_dir holds no trained model"
            )
        if not name and trained.head not in CLASSIFIERS:
            raise UserError(
                f"the model is of {trained.task_name} (head {trained.head}), "
                "which is not for run_classifier.py: take the command that "
                "trained it"
            )
        head = head_flags.from_flags()
        asked = FLAGS["is_regression"].present or FLAGS["multi_label"].present
        if trained and not asked and trained.head in CLASSIFIERS:
            head = trained.head
        head_flags.check(name or trained.task_name, head)
        return flag_values.build(
            ClassifierDataOptions,
            head=head,
            task_name=name or trained.task_name,
        )


class TaggerCommand(TaskCommand):
    """With files of columns, or of JSON lines."""

    def data_options(
        self, trained: TaskSpec | None = None
    ) -> TaggingDataOptions:
        """The files; UserError: a flag is given that none of them follows."""
        data = super().data_options(trained)
        given = any(FLAGS[name].present for name in _OF_TAGS[_COLUMNS,])
        reader = resolve("data.finetuning.tagging.examples")
        if given and reader.are_json_lines(data):
            choice = "data_dir" if data.data_dir else "train_file"
            flag_values.check_followed(choice, _JSON_LINES, _OF_TAGS)
        return data
