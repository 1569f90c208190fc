"""Flags of `modeling.explain_permutation`."""

from absl import flags

from common.errors import UserError
from flags import flag_values
from modeling.options import ExplainOptions

FLAGS = flags.FLAGS


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string("text", None, "The sentence to explain.", required=True)
    flags.DEFINE_list(
        "order",
        None,
        "Factorization order: the places in the text, from 1, in the order in "
        "which they are predicted, e.g. 3,2,4,1.",
        required=True,
    )
    flags.DEFINE_enum(
        "split",
        "words",
        ["words", "pieces"],
        "Cut the text at blanks or into SentencePiece pieces.",
    )
    flags.DEFINE_string(
        "spiece_model_file", "", "SentencePiece file, for --split=pieces."
    )
    flags.DEFINE_string("output", "", "Also draw both matrices to this PNG.")


def from_flags() -> ExplainOptions:
    """The flags as options.

    Raises:
      UserError: --order holds something else than numbers.
    """
    try:
        order = tuple(int(place) for place in FLAGS.order)
    except ValueError as e:
        raise UserError(
            f"--order wants numbers such as 3,2,4,1, found "
            f"{','.join(FLAGS.order)!r}"
        ) from e
    return flag_values.build(ExplainOptions, order=order)
