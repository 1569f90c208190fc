"""The arrays of records: slots, masks by bits, and what has a place."""

import numpy as np

from common.contract.symbols import SymbolIds
from data.pretraining.options import BuildOptions
from data.pretraining.record import META
from data.pretraining.sampling import permutation, record_arrays
from data.pretraining.sampling import segments as segments_lib
from data.pretraining.sampling.token_stream import Stream

T, REUSE, P = 24, 10, 6


def shape(**changes):
    values = {"seq_len": T, "reuse_len": REUSE, "num_predict": P}
    return record_arrays.Shape.of(
        BuildOptions("a", "b", "c", **(values | changes))
    )


def stream(n=130):
    rng = np.random.default_rng(2)
    words = rng.random(n) < 0.6
    words[0] = True
    starts = np.flatnonzero(words)
    documents = starts[[0, 20, 40]]
    sentences = np.union1d(documents, starts[::4])
    ids = rng.integers(9, 60, n).astype(np.int32)
    return Stream(ids, sentences, documents, words)


def make(**changes):
    text, rng = stream(), np.random.default_rng(5)
    segments = segments_lib.make_segments(text, 130, T, REUSE, rng)
    return record_arrays.make_arrays(
        text, segments, shape(**changes), SymbolIds(), rng
    )


def test_targets_fill_their_slots_in_the_order_of_the_text():
    arrays = make()
    count = arrays["meta"]["targets"]
    assert (count == arrays["is_target"].sum(1)).all() and count.max() > 0
    for row, used in enumerate(count):
        places = arrays["target_positions"][row]
        wanted = np.flatnonzero(arrays["is_target"][row])
        assert places[:used].tolist() == wanted.tolist()
        assert not places[used:].any()
    ids = SymbolIds()
    chosen = arrays["input_ids"][arrays["is_target"]]
    assert not np.isin(chosen, [ids.sep, ids.cls, ids.pad]).any()


def test_sep_and_cls_have_a_place_unless_they_are_context():
    ids = SymbolIds()
    for context in (False, True):
        arrays = make(functional_as_context=context)
        second = arrays["meta"]["a_tokens"] > 0
        functional = np.isin(arrays["input_ids"], [ids.sep, ids.cls])
        ranks = arrays["ranks"][second][functional[second]]
        assert len(ranks) == 3 * second.sum()
        assert ((ranks == REUSE) == context).all()


def test_masks_are_those_of_the_ranks():
    arrays = record_arrays.materialize(make())
    mask = np.unpackbits(
        arrays["perm_mask"], axis=-1, count=T, bitorder="little"
    )
    wanted = permutation.perm_mask(arrays["ranks"], arrays["is_target"])
    assert (mask == wanted).all()
    mapping = np.unpackbits(
        arrays["target_mapping"], axis=-1, count=T, bitorder="little"
    )
    assert (mapping.sum(1) == arrays["is_target"]).all()
    assert set(record_arrays.materialize(arrays, True)) == {
        *("perm_mask", "target_mapping")
    }


def test_meta_counts_the_parts():
    arrays = make()
    meta = arrays["meta"]
    assert meta.dtype == META
    real = arrays["input_ids"] != SymbolIds().pad
    parts = meta["reuse_tokens"] + meta["a_tokens"] + meta["b_tokens"]
    wanted = parts + 3 * (meta["a_tokens"] > 0)
    assert (real.sum(1) == wanted).all()
