"""Which checkpoint of a folder is read: the commands that read a model."""

from absl import flags

from common.weights_line import AUTO, CHECKPOINT_CHOICES

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flag."""
    flags.DEFINE_enum(
        "checkpoint_choice",
        AUTO,
        CHECKPOINT_CHOICES,
        "Of a folder that is read: its best/, its last checkpoint, or (auto) "
        "best/ where the run evaluated to its end, else the last. A path names "
        "any other one.",
    )


def from_flags() -> str:
    """One of `CHECKPOINT_CHOICES`."""
    return FLAGS.checkpoint_choice
