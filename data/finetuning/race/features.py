"""One RACE question -> four inputs `passage SEP question+option SEP CLS` (L1).

The original appends each option's tokens to the list that holds the passage
(an alias), so option k sees the options before it; here every option has its
own copy, and `accumulate_options=True` gives the original's inputs.
"""

from collections.abc import Sequence

from common.contract import symbols
from data.finetuning.features import pair_features
from data.finetuning.features.pair_features import Sequence1D

NUM_OPTIONS = 4


def question_with_option(question: str, option: str) -> str:
    """A cloze question takes the option at `_`; others are followed by it.

    >>> question_with_option("He went to the _ today.", "island")
    'He went to the island today.'
    """
    if "_" in question:
        return question.replace("_", option)
    return " ".join([question, option])


def option_sequences(
    passage: Sequence[int],
    options: Sequence[Sequence[int]],
    max_length: int,
    max_qa_length: int,
    ids: symbols.SymbolIds,
    accumulate_options: bool = False,
    layout: str = symbols.CLS_LAST,
) -> list[Sequence1D]:
    """The inputs of one question.

    Args:
      options: token ids of question + option, `NUM_OPTIONS` of them; only the
        last `max_qa_length` tokens of each are kept, as in the original.
      max_length: T; the passage is cut at its end, then the pair rule holds.
      accumulate_options: the original's aliasing, for parity only.
      layout: one of `symbols.LAYOUTS`; the aliasing is of CLS last.

    Returns:
      One sequence per option, unpadded.
    """
    context = list(passage)
    sequences = []
    for option in options:
        tail = list(option)[-max_qa_length:] if max_qa_length else []
        if not accumulate_options:
            sequences.append(
                pair_features.join_segments(
                    [context, tail], max_length, ids, layout
                )
            )
            continue
        sequence, context = _grown(context, tail, max_length, ids)
        sequences.append(sequence)
    return sequences


def _grown(
    context: list[int], tail: list[int], max_length: int, ids: symbols.SymbolIds
) -> tuple[Sequence1D, list[int]]:
    """The original's step: the list of the passage is the list of the input.

    A cut makes a copy, so the passage grows only when all fits. Segment ids
    count what the list held before this option as the passage.
    """
    room = max_length - 3
    fits = len(context) + len(tail) <= room
    sequence = pair_features.join_segments([context, tail], max_length, ids)
    return sequence, (sequence.ids if fits else context)
