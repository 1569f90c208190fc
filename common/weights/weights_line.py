"""Which checkpoint of a folder commands read, and how they say it."""

from typing import Any

from common.heads import ENCODER
from common.settings import setting
from common.weights.hub import origin

# Of the checkpoints of a folder: see `modeling.checkpoints.weights`. They stand
# here so that flags know them without TensorFlow.
AUTO, BEST, LAST = CHECKPOINT_CHOICES = ("auto", "best", "last")


def part_setting() -> Any:
    """A field: what of weights is read, "" = all of them."""
    return setting(
        "",
        "encoder: take the encoder of the weights alone and leave the head "
        "out that they were trained with.",
        choices=("", ENCODER),
        flag="head",
    )


def choice_setting() -> Any:
    """A field: which checkpoint of a folder, one of `CHECKPOINT_CHOICES`."""
    return setting(
        AUTO,
        "Of a folder that is read: its best/, its last checkpoint, or "
        "(auto) best/ where the run evaluated to its end, else the last. A "
        "path names any other one.",
        choices=CHECKPOINT_CHOICES,
    )


def weights_line(path: str, why: str = "") -> str:
    """One line; `why` this one of its folder's, "" = it was named.

    A path in the cache of Hugging Face's hub is told by repository and commit.
    """
    return f"weights      {origin(path) or path}" + (f" ({why})" if why else "")
