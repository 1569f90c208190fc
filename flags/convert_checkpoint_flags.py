"""Flags of `modeling.convert_checkpoint`."""

from absl import flags

from common.heads import ENCODER, with_weights
from flags import weights_flags
from modeling.options import ConvertOptions

FLAGS = flags.FLAGS

FORMATS = ["tf1", "hf", "native"]
HEADS = ["", ENCODER, *with_weights()]


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_enum(
        "from_format",
        None,
        [*FORMATS, "torch"],
        "What --input is: the original's layout, a Hugging Face folder, a "
        "checkpoint of this project, or torch: the file of a state_dict "
        "(Transformer-XL's PyTorch release), read without PyTorch.",
        required=True,
    )
    flags.DEFINE_enum(
        "to_format", None, FORMATS, "What --output becomes.", required=True
    )
    flags.DEFINE_string(
        "input",
        None,
        "Checkpoint to read: a folder, a prefix or an .index file.",
        required=True,
    )
    flags.DEFINE_string(
        "output",
        None,
        "Where to write: a checkpoint prefix for tf1, else a new folder.",
        required=True,
    )
    flags.DEFINE_string(
        "config",
        "",
        "Configuration file; the one beside --input if not given.",
    )
    flags.DEFINE_enum(
        "head", "", HEADS, "Which head to take where --input has several."
    )
    flags.DEFINE_string(
        "grow_to",
        "",
        "config.json of a larger model of the same kind (bert, albert, "
        "modernbert) that begins with these weights, tiled from the middle.",
    )
    weights_flags.define()


def from_flags() -> ConvertOptions:
    """The flags as options."""
    return ConvertOptions(
        from_format=FLAGS.from_format,
        to_format=FLAGS.to_format,
        input=FLAGS.input,
        output=FLAGS.output,
        config=FLAGS.config,
        head=FLAGS.head,
        grow_to=FLAGS.grow_to,
        checkpoint_choice=weights_flags.from_flags(),
    )
