"""Options that no build can have, and what records depend on."""

import pytest

from common.errors import UserError
from data.pretraining.options import BuildOptions
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"input_glob": "/nowhere/*.txt"}, "matches no file"),
        ({"spiece_model_file": "/nowhere.model"}, "does not exist"),
        ({"reuse_len": 45}, "--reuse_len must lie in 0..43"),
        ({"seq_len": 4}, r"--seq_len must be in \[8, 16384\]"),
        ({"num_predict": 46}, "--num_predict must lie in 1..45"),
        ({"span_unit": "char"}, "--span_unit must be one of"),
        ({"mask_beta": 6}, "--mask_beta must lie"),
        ({"dev_fraction": 1.0}, "--dev_fraction"),
        ({"materialize_batches": 7}, "must be even: .*received 7"),
        ({"sampler": "original", "perm_size": 9}, "divides both parts"),
    ],
)
def test_wrong_options(folder, changes, message):
    with pytest.raises(UserError, match=message):
        builds.run(folder, "wrong", **changes)
    assert not (folder / "wrong").exists()


def test_options_identity_leaves_out_how_it_was_run():
    a = BuildOptions("a", "b", "c", num_workers=4).identity()
    assert a == BuildOptions("x", "y", "z").identity()


def test_default_slots_of_the_other_samplers():
    def slots(**changes):
        return BuildOptions("a", "b", "c", **changes).num_predict

    assert slots(sampler="original", perm_size=256) == 512 // 6
    assert slots() == 94
    assert slots(span_unit="token") == 87  # a token is a piece: exact
    assert slots(seq_len=8, reuse_len=2) == 5  # T less SEP, SEP, CLS
