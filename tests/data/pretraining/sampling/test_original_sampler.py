"""The released code's sampling, orders and records, bit for bit."""

import gzip
import json
import random

import numpy as np
import pytest

from common.contract.symbols import SymbolIds
from data.pretraining.sampling import original_sampler, permutation
from data.text.tokenizer import Tokenizer
from tests.data.pretraining import original_builder

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def offline(golden):
    with gzip.open(golden / "data" / "offline.json.gz") as f:
        return json.load(f)


@pytest.fixture(scope="module")
def tokenizer(spiece_model):
    return Tokenizer(spiece_model)


def test_sample_mask(offline, tokenizer):
    for case in offline["sample_mask"]:
        found = original_sampler.sample_mask(
            tokenizer.word_starts[np.asarray(case["seg"])],
            np.random.RandomState(case["np_seed"]),
            case["goal_num_predict"],
            case["mask_alpha"],
            case["mask_beta"],
            case["max_gram"],
            case["reverse"],
        )
        assert found.astype(int).tolist() == case["mask"]


def test_split_a_and_b(offline):
    ids = np.arange(1000, 1120)
    for case in offline["split_a_and_b"]:
        found = original_builder.split_a_and_b(
            ids,
            np.asarray(case["sent_ids"]),
            case["begin_idx"],
            case["tot_len"],
            random.Random(case["py_seed"]),
        )
        wanted = case["result"]
        if wanted is None:
            assert found is None
            continue
        assert ids[slice(*found["a"])].tolist() == wanted["a_data"]
        assert ids[slice(*found["b"])].tolist() == wanted["b_data"]
        assert found["label"] == wanted["label"]
        assert found["new_begin"] == wanted["new_begin"]


def test_a_complete_run(offline, tokenizer):
    case = offline["create_data"]
    flags = case["flags"]
    found = list(
        original_builder.create_records(
            "\n".join(case["corpus_lines"]).split("\n"),
            tokenizer,
            flags["bsz_per_host"],
            flags["seq_len"],
            flags["reuse_len"],
            flags["num_predict"],
            flags["bi_data"],
            100 * flags["task"] + flags["pass_id"],
            case["py_seed"],
        )
    )
    assert found == case["records"]
    steps = case["record_info"]["num_batch"]
    assert len(found) == steps * flags["bsz_per_host"]


def _cases(path):
    arrays = np.load(path)
    names = sorted({name.split("/")[0] for name in arrays.files})
    return [
        {
            k.removeprefix(name + "/"): arrays[k]
            for k in arrays.files
            if k.startswith(name + "/")
        }
        for name in names
    ]


def masks_of(
    index: np.ndarray, is_target: np.ndarray, reuse_len: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two parts' orders -> stored ranks and the whole mask they stand for.

    Args:
      index: int [T], orders of both parts, -1 for context.
      is_target: bool [T].
      reuse_len: positions of the first part.

    Returns:
      ranks int16 [T], perm_mask bool [T, T].
    """
    ranks = np.asarray(index, np.int16).copy()
    ranks[reuse_len:] += reuse_len + 1
    mask = permutation.perm_mask(ranks[None], np.asarray(is_target)[None])
    return ranks, mask[0]


def test_local_perm(golden):
    for case in _cases(golden / "data" / "local_perm.npz"):
        n = len(case["inputs"])
        order = original_sampler.permuted_index(n, case["perm"])
        assert (order == case["index"]).all()
        found = original_sampler.local_perm(
            case["inputs"], case["is_masked"], case["perm"], SymbolIds()
        )
        assert (found["perm_mask"] == case["perm_mask"]).all()
        assert (found["is_target"] == case["target_mask"]).all()
        # The stored ranks of one part stand for the same mask.
        _, mask = masks_of(found["index"], found["is_target"], n)
        assert (mask == case["perm_mask"]).all()


def test_parser_masks_from_ranks(golden):
    for case in _cases(golden / "data" / "parser.npz"):
        ids, masked = case["rec/input"], case["rec/is_masked"].astype(bool)
        parts = [
            original_sampler.local_perm(
                ids[part], masked[part], case[f"perm_{i}"], SymbolIds()
            )
            for i, part in enumerate((slice(0, 8), slice(8, 16)))
        ]
        index = np.concatenate([p["index"] for p in parts])
        target = np.concatenate([p["is_target"] for p in parts])
        ranks, mask = masks_of(index, target, 8)
        assert ranks.dtype == np.int16
        assert (mask == case["out/perm_mask"]).all()
        if "out/target_mapping" in case:
            rows = case["out/target_mapping"].sum(1) > 0
            found = case["out/target_mapping"][rows].argmax(1)
            assert (found == np.flatnonzero(target)).all()
