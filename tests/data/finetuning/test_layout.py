"""Rows of encoders whose CLS comes first."""

import numpy as np
import pytest

from common.contract import symbols
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.race import examples as race_features
from data.finetuning.squad import features as squad_features

IDS = symbols.SymbolIds()


def test_a_pair_with_cls_first():
    joined = pair_features.join_segments(
        [[11, 12, 13], [21, 22]], 10, IDS, "cls_first"
    )
    assert joined.ids == [3, 11, 12, 13, 4, 21, 22, 4]
    assert joined.segments == [0, 0, 0, 0, 0, 1, 1, 1]
    made = finetune_table.from_sequences(
        [joined], **pair_features.padding("cls_first")
    )
    again = finetune_table.from_arrays(finetune_table.to_arrays(made))
    batch = again.batch(np.arange(1), 10)
    assert batch["input_ids"][0].tolist() == [*joined.ids, 0, 0]
    assert batch["segment_ids"][0].tolist() == [*joined.segments, 0, 0]
    assert batch["input_mask"][0].tolist() == [1] * 8 + [0, 0]
    short = pair_features.join_segments([[11] * 9, [21]], 7, IDS, "cls_first")
    assert short.ids == [3, 11, 11, 11, 4, 21, 4]


def test_race_options_with_cls_first():
    rows = race_features.option_sequences(
        [11, 12], [[21], [22]], 8, 5, IDS, layout="cls_first"
    )
    assert [r.ids for r in rows] == [
        [3, 11, 12, 4, 21, 4],
        [3, 11, 12, 4, 22, 4],
    ]


@pytest.mark.parametrize("layout", symbols.LAYOUTS)
def test_windows_name_the_same_tokens_in_both_layouts(layout):
    paragraph = squad_features.TokenizedParagraph(
        np.arange(50, 60, dtype=np.int32),
        np.arange(0, 20, 2),
        np.arange(2, 22, 2),
    )
    builder = squad_features.WindowBuilder(10, 3, 3, IDS, True, layout)
    span = squad_features.AnswerSpan(8, 11)  # tokens 4 and 5
    builder.add(0, [21, 22], paragraph, span)
    windows = builder.finish()
    count = len(windows.question)
    batch = squad_features.expand_batch(
        windows.table.batch(np.arange(count), 10)
    )
    answered = 0
    for row in range(count):
        ids = batch["input_ids"][row]
        seen = ids[batch["paragraph_mask"][row] == 1].tolist()
        start, end = batch["start_positions"][row], batch["end_positions"][row]
        cls = batch["cls_index"][row]
        assert ids[cls] == IDS.cls
        inside = seen[1:] if layout == "cls_first" else seen[:-1]
        first = windows.doc_start[row]
        assert inside == paragraph.ids[first : first + len(inside)].tolist()
        if batch["is_impossible"][row]:
            assert start == end == cls
        else:
            assert ids[start : end + 1].tolist() == [54, 55]
            answered += 1
    assert answered
    if layout == "cls_first":
        assert batch["input_ids"][0].tolist()[:4] == [3, 21, 22, 4]
        assert batch["segment_ids"][0].tolist() == [0] * 4 + [1] * 6
