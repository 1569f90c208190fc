"""Where the original says that SQuAD's tokens lie, for parity checks."""

from collections.abc import Sequence

import numpy as np

from data.finetuning.squad.features import TokenizedParagraph


def original_spans(
    paragraph: TokenizedParagraph, marked: Sequence[bool]
) -> tuple[np.ndarray, np.ndarray]:
    """First and last character of each token as the original counts them.

    There a word mark takes the first character of the white space before the
    word (`▁by` in "opened  by" begins at the first space), a lone mark only
    that. Answers are the same: both strip the text.

    Args:
      paragraph: our spans.
      marked: whether the piece begins with a word mark, `[n]`.
    """
    before = np.concatenate([[0], paragraph.end[:-1]])[: len(paragraph.end)]
    marked = np.asarray(marked, bool)
    first = np.where(marked, before, paragraph.start)
    lone = paragraph.end <= paragraph.start
    return first, np.where(marked & lone, before, paragraph.end - 1)
