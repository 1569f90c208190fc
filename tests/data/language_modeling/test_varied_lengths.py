"""Lengths of segments as the release draws them."""

import json

import numpy as np
import pytest

from data.language_modeling.varied_lengths import segment_lengths


def test_lengths_have_the_shares_of_the_release():
    random = np.random.RandomState(1)
    lengths = segment_lengths(400_000, 100, random)[:-1]
    short = lengths < 75
    assert short.mean() == pytest.approx(0.05, abs=0.01)
    assert lengths[short].mean() == pytest.approx(49.5, abs=1.5)
    assert lengths[~short].std() == pytest.approx(5, abs=0.3)
    assert lengths.max() <= 115


@pytest.mark.shared
def test_varied_lengths_are_the_originals(golden):
    path = golden / "txl" / "data" / "pytorch_iterators.json"
    case = json.loads(path.read_text())
    data, varied = case["data"], case["varlen"]
    lengths = segment_lengths(
        len(data) // varied["bsz"] - 1,
        varied["bptt"],
        np.random.RandomState(varied["seed"]),
        varied["std"],
    )
    assert [b["seq_len"] for b in varied["batches"]] == lengths.tolist()
