"""Flags of run_classifier.py."""

from absl import flags

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.finetuning.options import CLASSIFIER_HEADS, ClassifierDataOptions
from flags import flag_values
from flags.tasks.task_command import TaskCommand

FLAGS = flags.FLAGS


class ClassifierCommand(TaskCommand):
    """With a task by name, which a trained model may say."""

    def define(self) -> None:
        """Registers the flags."""
        flag_values.often |= {"is_regression", "multi_label"}
        super().define()
        flags.DEFINE_bool(
            "is_regression", False, "tsv, csv, jsonl: the label is a number."
        )
        flags.DEFINE_bool(
            "multi_label",
            False,
            "tsv, csv, jsonl: a row may have several labels or none.",
        )

    def data_options(
        self, trained: TaskSpec | None = None
    ) -> ClassifierDataOptions:
        """The task; that of `trained`, and its head, where none is asked for.

        Raises:
          UserError: no task is known, or flags that exclude each other.
        """
        name = FLAGS.task_name
        if not name and trained is None:
            raise UserError(
                "--task_name must be given: --model_dir holds no trained model"
            )
        if not name and trained.head not in CLASSIFIER_HEADS:
            raise UserError(
                f"the model is of {trained.task_name} (head {trained.head}), "
                "which is not for run_classifier.py: take the command that "
                "trained it"
            )
        if FLAGS.is_regression and FLAGS.multi_label:
            raise UserError("give one of --is_regression and --multi_label")
        head = "regression" if FLAGS.is_regression else "classification"
        head = "multi_label" if FLAGS.multi_label else head
        asked = FLAGS["is_regression"].present or FLAGS["multi_label"].present
        if trained and not asked and trained.head in CLASSIFIER_HEADS:
            head = trained.head
        return flag_values.build(
            ClassifierDataOptions,
            head=head,
            task_name=name or trained.task_name,
        )
