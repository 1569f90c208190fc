"""Stored targets, starts of units, and draws that data do not allow."""

import types

import numpy as np
import pytest

from common.errors import UserError
from data.pretraining.record import META
from data.pretraining.sampling import resampling


def test_the_used_slots_are_the_targets():
    meta = np.zeros(2, META)
    meta["targets"] = (2, 0)
    row = {
        "input_ids": np.zeros((2, 5), np.int32),
        "target_positions": np.array([[1, 4, 0], [0, 0, 0]]),
        "meta": meta,
    }
    assert resampling.targets_of(row).astype(int).tolist() == [
        [0, 1, 0, 0, 1],
        [0, 0, 0, 0, 0],
    ]


def test_a_words_last_piece_comes_first_in_backward_rows():
    table = np.array([True, False, True])  # pieces 0 and 2 begin words
    forward = np.array([0, 1, 1, 2, 1])
    starts = resampling.word_starts_of(forward, table, False)
    assert starts.tolist() == [True, False, False, True, False]
    back = resampling.word_starts_of(forward[::-1], table, True)
    # 1 2 1 1 0: the words end behind 2 and behind 0.
    assert back.tolist() == [True, False, True, False, False]


def test_lengths_are_whole_numbers_of_64_bits():
    meta = np.zeros(1, META)
    meta["reuse_tokens"], meta["a_tokens"], meta["b_tokens"] = 3, 4, 5
    found = resampling.part_lengths(meta)
    assert [x.tolist() for x in found] == [[3], [4], [5]]
    assert {x.dtype for x in found} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    "sampler, permutation, targets",
    [
        ("balanced", True, True),
        ("context", True, False),
        ("original", False, False),
    ],
)
def test_who_may_draw_what(sampler, permutation, targets):
    manifest = types.SimpleNamespace(options={"sampler": sampler}, data_dir="d")
    resampling.check_sampler(
        manifest, resample_permutation=False, resample_targets=False
    )
    for name, allowed in (
        ("resample_permutation", permutation),
        ("resample_targets", targets),
    ):
        if allowed:
            resampling.check_sampler(manifest, **{name: True})
            continue
        with pytest.raises(UserError, match=f"--{name}: .*found d of --samp"):
            resampling.check_sampler(manifest, **{name: True})
