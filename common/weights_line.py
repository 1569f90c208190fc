"""Which checkpoint of a folder commands read, and how they say it (L0)."""

# Of the checkpoints of a folder: see `modeling.checkpoints.weights`. They stand
# here so that flags know them without TensorFlow.
AUTO, BEST, LAST = CHECKPOINT_CHOICES = ("auto", "best", "last")


def weights_line(path: str, why: str = "") -> str:
    """One line.

    Args:
      path: of the checkpoint.
      why: this one of its folder's; "" = it was named.
    """
    return f"weights      {path}" + (f" ({why})" if why else "")
