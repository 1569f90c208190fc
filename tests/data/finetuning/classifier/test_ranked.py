"""WNLI's rows of candidates, and candidates of too many pieces."""

import pytest

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.finetuning.classifier import ranked, schemas
from data.finetuning.examples import TextExample

PREMISE = "The jar hit the vase because it was heavy."
OTHER = "Ann met Mary. She smiled."


def example(premise, hypothesis):
    return TextExample("0", (premise, hypothesis), "0", "f:1")


def test_a_candidate_alone_gets_rivals_by_rule():
    found = ranked._candidates(
        [
            example(PREMISE, "The jar was heavy."),
            example(OTHER, "Ann smiled."),
            example(PREMISE, "the JAR was heavy."),
            example(OTHER, "Mary smiled."),
            example(PREMISE, "The jar was light."),
        ]
    )
    assert found.row_of == [0, 1, 0, 2, -1]
    texts = [schema.candidate for schema in found.schemas]
    # Those of the second pronoun compete already.
    folded = [text.casefold() for text in texts[:3]]
    assert folded == ["the jar", "ann", "mary"]
    assert [t.casefold() for t in texts[3:]] == [
        t.casefold() for t in schemas.rivals(found.schemas[0])
    ]
    assert len(texts) > 3 and len(set(found.keys)) == 2


def test_a_candidate_of_more_pieces_than_a_row_is_refused():
    schema = schemas.find(PREMISE, "The jar was heavy.")
    ids = SymbolIds()
    parts = [([11, 12], [21, 22, 23], [31])]
    table = ranked.candidate_table([schema], parts, 8, ids, "f.tsv")
    assert table.token_ids.tolist() == [11, 12, 21, 22, 23, 31, 4, 3]
    with pytest.raises(UserError, match="f.tsv: .* has 3 pieces, wanted at m"):
        ranked.candidate_table([schema], parts, 4, ids, "f.tsv")
    long = [([11], [21] * (ranked.MOST_PIECES + 1), [31])]
    with pytest.raises(UserError, match="shorten it, or leave --ranking out"):
        ranked.candidate_table([schema], long, 64, ids, "f.tsv")
