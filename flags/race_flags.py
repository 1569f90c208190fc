"""Flags of run_race.py."""

from absl import flags

from data.finetuning.options import RaceDataOptions
from flags import flag_values, tuning_flags

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    default = RaceDataOptions
    tuning_flags.define(max_seq_length=512, eval_batch_size=8)
    flags.DEFINE_string(
        "data_dir", None, "The RACE folder: train, dev, test.", required=True
    )
    flags.DEFINE_integer(
        "max_qa_length",
        default.max_qa_length,
        "Tokens kept, the last ones, of question and option.",
    )
    flags.DEFINE_bool("high_only", False, "Only the high level.")
    flags.DEFINE_bool("middle_only", False, "Only the middle level.")
    flags.DEFINE_string("eval_split", "dev", "Split to evaluate.")
    flags.DEFINE_bool(
        "accumulate_options",
        False,
        "Let each option see the options before it, as the original does.",
    )


def from_flags() -> RaceDataOptions:
    """The task; `tuning_flags.from_flags` is the rest."""
    return flag_values.build(RaceDataOptions)
