"""Characters of pieces, in the features of questions and of tags.

No training: a span of pieces is a span of the text, and a character belongs to
the pieces that hold it, whatever odd characters stand around it.
"""

import unicodedata

import numpy as np
import pytest

from data.finetuning.options import SquadDataOptions
from data.finetuning.squad import predictions
from data.finetuning.squad.features import (
    AnswerSpan,
    TokenizedParagraph,
    answer_tokens,
)
from data.finetuning.tagging.examples import TaggedText
from data.finetuning.tagging.features import unit_pieces, word_labels
from tests.helpers import released
from tests.helpers.released_folders import KINDS, TEXTS, tokenizer

pytest.importorskip("tokenizers")

HARD = (
    "a\u0301\u0316\u0345b \u0130\u0130 i\u0307",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\ufe0f x\u200dy",
    "\uff21\uff22\uff23\u3000\uff11\uff12 \uff8a\uff9f",
    "a\r\nb\r\n\r\nc",
    "\x00a\x00\x00b\ufffd\ufffd c\ufffd",
    "e\u0323\u0301 \u0344 \u212b q\u0307\u0323",
)
WORDS = ["the", "river", "(x)", "2,000,"]


@pytest.fixture(scope="module", params=KINDS)
def texts_of(request, tmp_path_factory):
    """Hard texts with their pieces, by each kind of tokenizer."""
    made = tokenizer(request.param, tmp_path_factory.mktemp("pieces"))
    texts = [*HARD, *TEXTS, *released.ODD]
    texts += released.random_texts(150, WORDS, 3)
    return [(t, TokenizedParagraph(*made.encode_spans(t))) for t in texts]


def _holders(pieces, place):
    """Pieces that hold a character, looked for one by one."""
    spans = zip(pieces.start, pieces.end, strict=True)
    return [i for i, (start, end) in enumerate(spans) if start <= place < end]


def _may_be_dropped(text, place):
    """Marks, controls, joiners, U+FFFD; one part of a quote in two."""
    form = unicodedata.normalize("NFKD", text[place])
    if form in ("`", "'"):
        return form * 2 in text[max(place - 1, 0) : place + 2]
    kinds = {unicodedata.category(c)[0] for c in form}
    return kinds <= {*"MCZ"} or form == "\ufffd"


def test_pieces_stand_in_the_order_of_the_text(texts_of):
    for text, pieces in texts_of:
        start, end = pieces.start, pieces.end
        assert (start >= 0).all() and (end <= len(text)).all(), text
        assert (start <= end).all(), text
        assert (np.diff(start) >= 0).all() and (np.diff(end) >= 0).all(), text


@pytest.mark.long
def test_a_character_has_the_pieces_that_hold_it(texts_of):
    """Those of a gold answer, and the one that tells a token's tag."""
    for text, pieces in texts_of:
        for place, character in enumerate(text):
            if character.isspace():
                continue
            held = _holders(pieces, place)
            found = answer_tokens(pieces, AnswerSpan(place, place))
            assert found == ((held[0], held[-1]) if held else None), text
            (piece,) = unit_pieces([(place, place + 1)], pieces)
            assert piece == (held[0] if held else -1), (text, place)
            if not held:
                assert _may_be_dropped(text, place), (text, place)


def test_predicted_answers_are_parts_of_the_context(texts_of):
    for text, pieces in texts_of:
        count = len(pieces.ids)
        if not count:
            continue
        last = pieces.end - 1
        last[:1] = np.maximum(last[:1], 0)
        window = predictions.WindowText(
            pieces.start, last, np.ones(count, bool)
        )
        # Each single piece, and from each piece to the end.
        places = list(range(count))
        ends = [end for place in places for end in (place, count - 1)]
        beams = predictions.WindowBeams(
            [0.0] * count, places, [0.0] * len(ends), ends, 0.0
        )
        best, _ = predictions.answer_question(
            text,
            [(window, beams)],
            SquadDataOptions(n_best_size=9999, max_answer_length=9999),
        )
        found = [answer["text"] for answer in best]
        assert all(answer in text for answer in found), (text, found)
        whole = text[pieces.start[0] : pieces.end[-1]].strip()
        assert whole in found, (text, found)


def test_a_dropped_token_gives_its_label_to_no_other():
    """The last pieces are of a word before the one that has none."""
    pieces = TokenizedParagraph(
        *(np.array(x) for x in ([7, 8], [0, 2], [2, 4]))
    )
    example = TaggedText(
        "1", "boat \ufffd", ((0, 4), (5, 6)), ("O", "B-x"), True, "x:1"
    )
    labels, alone = word_labels(example, pieces, {"O": 0, "B-x": 1})
    assert labels.tolist() == [0, -1] and alone == 1
