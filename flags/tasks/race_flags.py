"""Flags of run_race.py."""

from absl import flags

from common.errors import UserError
from data.finetuning import task_settings
from data.finetuning.options import RaceDataOptions
from flags import flag_values
from flags.tasks import tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    tuning_flags.define(max_seq_length=512, eval_batch_size=8)
    flag_values.define(RaceDataOptions, data_dir="")


def read(**changes) -> dict:
    """Everything that the flags say, some of them changed for this reading."""
    return tuning_flags.read(
        "run_race.py", task_settings.RACE, lambda _: from_flags(), **changes
    )


def from_flags() -> RaceDataOptions:
    """The task; `tuning_flags.from_flags` is the rest.

    Raises:
      UserError: texts are to be read, and no folder is named.
    """
    reads = FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict
    if reads and not FLAGS.data_dir:
        raise UserError("--data_dir must be given: the RACE folder")
    return flag_values.build(RaceDataOptions)
