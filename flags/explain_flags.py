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
    flags.DEFINE_string(
        "output",
        "",
        "Also draw it: both matrices as PNG, a graph as PNG or SVG.",
    )
    default = ExplainOptions
    flags.DEFINE_enum(
        "view",
        default.view,
        ["masks", "joint", "split"],
        "The masks as matrices; or the layers as a graph, all in one (joint) or "
        "a view of each last node (split), as Figures 3 and 4 of the paper.",
    )
    flags.DEFINE_enum(
        "stream",
        default.stream,
        ["content", "query", "both"],
        "Graph: which stream.",
    )
    flags.DEFINE_integer("n_layer", default.n_layer, "Graph: layers.")
    flags.DEFINE_integer("memory", default.memory, "Graph: slots of memory.")
    flags.DEFINE_integer(
        "partial",
        default.partial,
        "Graph: predict only so many, the last of the order; 0 = all.",
    )


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
