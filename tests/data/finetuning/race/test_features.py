"""RACE's options as rows: the original's ids, CLS last and first."""

import json

import numpy as np
import pytest

from common.contract.symbols import SymbolIds
from common.vocabularies.text_settings import TextSettings
from data.finetuning.features import pair_features
from data.finetuning.race import features as race_features
from data.text.tokenizer import Tokenizer

IDS = SymbolIds()


def test_race_options_with_cls_first():
    rows = race_features.option_sequences(
        [11, 12], [[21], [22]], 8, 5, IDS, layout="cls_first"
    )
    assert [r.ids for r in rows] == [
        [3, 11, 12, 4, 21, 4],
        [3, 11, 12, 4, 22, 4],
    ]


@pytest.mark.shared
def test_golden_race_features_both_ways(golden, spiece_model):
    value = json.loads((golden / "text" / "race.json").read_text())
    differing = 0
    for run in value["runs"]:
        tokenizer = Tokenizer(
            spiece_model, TextSettings(uncased=run["uncased"])
        )
        for accumulate, name in ((False, "unaliased"), (True, "original")):
            sequences = race_features.option_sequences(
                tokenizer.encode(run["context"]),
                [tokenizer.encode(q) for q in run["qa_list"]],
                run["max_seq_length"],
                run["max_qa_length"],
                tokenizer.symbols,
                accumulate,
            )
            rows = [
                pair_features.pad_left(s, run["max_seq_length"])
                for s in sequences
            ]
            ids, segments, mask = (
                np.concatenate(x) for x in zip(*rows, strict=True)
            )
            wanted = run[name]
            assert ids.tolist() == wanted["input_ids"]
            assert segments.tolist() == wanted["segment_ids"]
            assert (1 - mask).tolist() == wanted["input_mask"]
        differing += run["differs"]
    assert differing == 10
    assert len(value["runs"]) == 12
