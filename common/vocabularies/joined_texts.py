"""How a released tokenizer joins two texts, as a layout of rows."""

import json

from common.vocabularies import frames
from common.vocabularies.vocabulary import Vocabulary, is_released

_CLS_FIRST = "cls_first"  # `common.contract.symbols` has them all


def layout_of(vocabulary: Vocabulary, layout: str, segments: int | None) -> str:
    """One of `common.contract.symbols.LAYOUTS`, or `layout` as it is.

    It stays where CLS is last and where the file is of SentencePiece. A rule that
    no layout has counts as the usual one.

    Args:
      vocabulary: as it was read.
      layout: the encoder's.
      segments: that the encoder tells apart; None: it reads none.
    """
    if not is_released(vocabulary.path) or layout != _CLS_FIRST:
        return layout
    try:
        rules = json.loads(vocabulary.content)
        between, one_segment = frames.joint(rules, vocabulary.about)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return layout  # whoever reads it says what is wrong
    one_segment = segments is not None and (one_segment or segments < 2)
    return frames.layout_of(layout, between, one_segment) or layout
