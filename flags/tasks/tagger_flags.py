"""Flags of run_tagger.py."""

from absl import flags

from common.errors import UserError
from data.finetuning import task_settings
from data.finetuning.options import TaggingDataOptions
from flags import flag_values
from flags.tasks import tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    tuning_flags.define(max_seq_length=128, eval_batch_size=32)
    flag_values.define(TaggingDataOptions)


def read(**changes) -> dict:
    """Everything that the flags say, some of them changed for this reading."""
    return tuning_flags.read(
        "run_tagger.py", task_settings.TAGGER, lambda _: from_flags(), **changes
    )


def from_flags() -> TaggingDataOptions:
    """The task; `tuning_flags.from_flags` is the rest.

    Raises:
      UserError: no file is named, or a flag that has no meaning here.
    """
    if not (
        FLAGS.data_dir
        or FLAGS.train_file
        or FLAGS.eval_file
        or FLAGS.predict_file
        or FLAGS.do_export
    ):
        raise UserError(
            "give --data_dir, or --train_file, --eval_file, --predict_file"
        )
    if FLAGS.segment_recurrence:
        raise UserError(
            "--segment_recurrence: run_tagger.py cuts long texts into windows "
            "(--doc_stride); leave it out"
        )
    return flag_values.build(TaggingDataOptions)
