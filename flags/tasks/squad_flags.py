"""Flags of run_squad.py."""

from data.finetuning import task_settings
from data.finetuning.options import SquadDataOptions
from flags import flag_values
from flags.tasks import tuning_flags


def define() -> None:
    """Registers the flags."""
    tuning_flags.define(max_seq_length=512, eval_batch_size=32)
    flag_values.define(SquadDataOptions)


def read(**changes) -> dict:
    """Everything that the flags say, some of them changed for this reading."""
    return tuning_flags.read(
        "run_squad.py", task_settings.SQUAD, lambda _: from_flags(), **changes
    )


def from_flags() -> SquadDataOptions:
    """The task; `tuning_flags.from_flags` is the rest.

    Raises:
      UserError: a weight is no number, or see `SquadDataOptions`.
    """
    return flag_values.build(SquadDataOptions)
