"""Flags of run_race.py."""

from absl import flags

from data.finetuning.options import RaceDataOptions
from flags import flag_values, tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    tuning_flags.define(max_seq_length=512, eval_batch_size=8)
    flag_values.define(RaceDataOptions)


def from_flags() -> RaceDataOptions:
    """The task; `tuning_flags.from_flags` is the rest."""
    return flag_values.build(RaceDataOptions)
