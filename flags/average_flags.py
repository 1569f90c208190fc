"""Flags of `modeling.average_checkpoints`."""

from absl import flags

from modeling.options import AverageOptions

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder of a run with several checkpoints.",
        required=True,
    )
    flags.DEFINE_integer(
        "last", AverageOptions.last, "So many of its newest checkpoints."
    )
    flags.DEFINE_string("output", None, "New model folder.", required=True)


def from_flags() -> AverageOptions:
    """The flags as options."""
    return AverageOptions(FLAGS.model_dir, FLAGS.output, FLAGS.last)
