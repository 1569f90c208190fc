"""How a released tokenizer makes rows of texts, as a layout."""

import json
import os

from common import files
from common.errors import UserError
from common.vocabularies import frames, unigram_rules
from common.vocabularies.vocabulary import (
    HF_CONFIG,
    RELEASED_NAME,
    Vocabulary,
    is_released,
    rules_of,
)

_CLS_FIRST = "cls_first"  # `common.contract.symbols` has them all
# Classes of transformers 5 that put CLS and SEP around a text themselves; others
# leave it to the file.
_FRAMING = ("AlbertTokenizer", "BartTokenizer", "BertTokenizer")
_FRAMING += ("DistilBertTokenizer", "ElectraTokenizer", "RobertaTokenizer")
_FRAMING += ("ConvBertTokenizer", "MobileBertTokenizer")
_FRAMING += ("XLMRobertaTokenizer", "XLNetTokenizer")


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


def check_segments(folder: str, layout: str) -> None:
    """UserError: CLS is last, and a released folder's rows have no segments.

    No layout has both. `layout` is the encoder's.
    """
    if layout == _CLS_FIRST or frames.tells_segments(rules_of(folder)):
        return
    raise UserError(
        f"{os.path.join(folder, HF_CONFIG)}: wanted an XLNet that was tuned "
        "with segments, found a tokenizer without (as those of transformers "
        "5): its answers would be others here; write token_type_ids into "
        "model_input_names if it was tuned with them, or tune a new model "
        "from it"
    )


def check_frame(vocabulary: Vocabulary, otherwise: str) -> None:
    """UserError: a released folder's rows lack CLS or SEP, which ours have.

    `otherwise` says what to do instead.
    """
    if os.path.basename(vocabulary.path) != RELEASED_NAME:
        return
    beside = os.path.join(os.path.dirname(vocabulary.path), "config.json")
    of_model = None
    if files.exists(beside):
        about = files.read_json_object(beside, "copy the folder again")
        of_model = about.get("model_type")
    kind = unigram_rules.class_of(vocabulary.about, of_model)
    try:
        rules = json.loads(vocabulary.content)
        framed = frames.read(rules) is not None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return  # whoever reads it says what is wrong
    if framed or kind in _FRAMING:
        return
    raise UserError(
        f"{vocabulary.path}: wanted a post_processor that puts CLS and SEP "
        "around a text, found none: here every row has them, and the answers "
        f"would be others; {otherwise}"
    )
