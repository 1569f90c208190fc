"""WNLI's rows of candidates, and candidates of too many pieces."""

import numpy as np
import pytest

from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.finetuning.classifier import ranked, schemas
from data.finetuning.examples import TextExample
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers.runs.classifier import make_options

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


def test_pairs_are_of_one_group():
    keys = ["q", "r", "q", "r", "q", "s"]
    right = [True, False, False, False, False, True]
    assert ranked.pairs(keys, right) == [
        *((0, 2), (0, 4)),  # every right one with every wrong one
        *((1, 1), (3, 3)),  # nothing is right
        (5, 5),  # alone
    ]


def test_paired_rows_are_the_rows():
    rows = [
        Sequence1D(list(range(10 * i, 10 * i + i)), [i] * i) for i in (1, 3, 2)
    ]
    table = finetune_table.from_sequences(
        rows,
        {"label_ids": np.array([0, 1, 1], np.int32)},
        token_columns={"ranks": np.array([5, 6, 7, 8, 9, 10], np.int32)},
    )
    made = ranked.paired(table, [(2, 0), (1, 1)])
    assert made.num_examples == 2 and made.num_rows == 4
    batch = made.batch(np.array([0, 1]), 3)
    assert batch["input_ids"].tolist() == [
        [[0, 20, 21], [0, 0, 10]],
        [[30, 31, 32], [30, 31, 32]],
    ]
    assert batch["ranks"].tolist()[0] == [[-1, 9, 10], [-1, -1, 5]]
    assert batch["label_ids"].tolist() == [1, 1]
    assert batch[ranked.RIVAL].tolist() == [1.0, 0.0]


def test_margins_choose_one_of_a_group():
    keys = ["a", "b", "a", "c", "a", "b"]
    found = ranked.margins([1.0, 3.0, 4.0, 9.0, 2.5, 3.0], keys)
    np.testing.assert_allclose(found[[0, 2, 4]], [-3.0, 1.5, -1.5])
    assert np.isnan(found[3])
    assert found[1] > 0 > found[5]  # equal scores: the first


@pytest.mark.shared
@pytest.mark.parametrize(
    "text, message",
    [
        (
            "Ann met Mary. She smiled.\tAnn smiled.\t0",
            "no pronoun with a right",
        ),
        ("Nobody saw it.\tThere is no such part.\t1", "found none in 1"),
    ],
)
def test_rows_that_teach_nothing_are_refused(
    tmp_path, spiece_model, text, message
):
    header = "index\tsentence1\tsentence2\tlabel"
    (tmp_path / "train.tsv").write_text(f"{header}\n0\t{text}\n")
    task = ranked.make_task(
        ClassifierDataOptions("wnli", str(tmp_path), ranking=True),
        FeatureOptions(spiece_model, 32),
        make_options(tmp_path, do_train=True),
    )
    with pytest.raises(UserError, match=f"train.tsv.*{message}.*leave --rank"):
        task.read("train", "train")


IDS = SymbolIds(unk=0, bos=1, eos=2, cls=3, sep=4, pad=5, mask=6, eod=7, eop=8)


@pytest.mark.parametrize("length, most", [(40, 24), (20, 18)])
def test_a_candidate_of_more_pieces_than_are_summed_is_refused(length, most):
    rows = [
        schemas.Schema("A ", "b", " c."),
        schemas.Schema("A ", "long one", " c."),
    ]
    parts = [([11], [12], [13]), ([11], [9] * most, [13])]
    table = ranked.candidate_table(rows, parts, length, IDS, "dev.tsv")
    assert table.token_columns["ranks"].max() == most - 1
    parts[1] = ([11], [9] * (most + 1), [13])
    found = f"dev.tsv: the candidate 'long one' has {most + 1} pieces, wanted"
    with pytest.raises(UserError, match=f"{found} at most {most},"):
        ranked.candidate_table(rows, parts, length, IDS, "dev.tsv")
