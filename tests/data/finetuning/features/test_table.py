"""Feature tables, batches, buckets, order, cache and workers."""

import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import UserError
from data.finetuning.features import batches as finetune_batches
from data.finetuning.features import cache as finetune_cache
from data.finetuning.features import pipeline as finetune_pipeline
from data.finetuning.features import table as finetune_table
from data.finetuning.features.pair_features import Sequence1D

ROWS = [
    Sequence1D([11, 4, 3], [0, 0, 2]),
    Sequence1D([12, 13, 4, 14, 4, 3], [0, 0, 0, 1, 1, 2]),
    Sequence1D([15, 4, 4, 3], [0, 0, 1, 2]),
]


def table(**kwargs):
    labels = {"label_ids": np.array([2, 0, 1], np.int32)}
    return finetune_table.from_sequences(ROWS, labels, **kwargs)


def test_batch_rows_and_padding_rows():
    batch = table().batch(np.array([1, 0]), 7, 4)
    assert batch["input_ids"].tolist() == [
        [0, 12, 13, 4, 14, 4, 3],
        [0, 0, 0, 0, 11, 4, 3],
        [0, 0, 0, 0, 11, 4, 3],
        [0, 0, 0, 0, 11, 4, 3],
    ]
    assert batch["segment_ids"][0].tolist() == [4, 0, 0, 0, 1, 1, 2]
    assert batch["input_mask"][1].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert batch["example_weight"].tolist() == [1, 1, 0, 0]
    assert batch["example_index"].tolist() == [1, 0, -1, -1]
    assert batch["label_ids"].tolist() == [0, 2, 2, 2]
    with pytest.raises(ValueError, match="at least 6"):
        table().batch(np.array([1]), 5)


def test_right_padding_and_options():
    right = table(pad_left=False, pad_segment=3).batch(np.array([2]), 5)
    assert right["input_ids"].tolist() == [[15, 4, 4, 3, 0]]
    assert right["segment_ids"].tolist() == [[0, 0, 1, 2, 3]]
    choices = finetune_table.from_sequences(ROWS * 2, num_options=3)
    assert choices.num_examples == 2
    assert choices.lengths().tolist() == [6, 6]
    batch = choices.batch(np.array([1]), 6)
    assert batch["input_ids"].shape == (1, 3, 6)
    assert batch["input_ids"][0, 2].tolist() == [0, 0, 15, 4, 4, 3]


def test_arrays_round_trip():
    again = finetune_table.from_arrays(finetune_table.to_arrays(table()))
    for name, value in table().batch(np.arange(3), 6).items():
        np.testing.assert_array_equal(again.batch(np.arange(3), 6)[name], value)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(0, 5), st.booleans())
def test_every_epoch_holds_every_example_once(count, batch, seed, by_length):
    """Whole windows of the endless list are whole epochs, whatever the batch."""
    lengths = np.arange(count) % 7 + 1
    steps = finetune_batches.WINDOW * count
    seen = [
        finetune_batches.training_batch(lengths, batch, seed, step, by_length)
        for step in range(steps)
    ]
    counts = np.bincount(np.concatenate(seen), minlength=count)
    assert (counts == finetune_batches.WINDOW * batch).all()


def test_every_epoch_and_seed_has_an_order_of_its_own():
    def epoch(number, seed=3):
        begin = number * 20
        return finetune_batches.endless_slice(20, seed, begin, begin + 20)

    orders = [epoch(0), epoch(1), epoch(2), epoch(0, seed=4)]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(20)) for order in orders)


def test_batches_by_length_waste_less_and_differ_by_seed():
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 100, 500)

    def padding(by_length, seed=1):
        total = 0
        for step in range(finetune_batches.WINDOW):
            rows = finetune_batches.training_batch(
                lengths, 8, seed, step, by_length
            )
            total += 8 * lengths[rows].max() - lengths[rows].sum()
        return total

    assert padding(True) < 0.2 * padding(False)
    a, b = (
        finetune_batches.training_batch(lengths, 8, seed, 3) for seed in (1, 2)
    )
    assert a.tolist() != b.tolist()


def test_evaluation_order_and_buckets():
    lengths = np.array([5, 2, 9, 4])
    plain = finetune_batches.evaluation_batches(lengths, 3)
    assert [x.tolist() for x in plain] == [[0, 1, 2], [3]]
    sorted_ = finetune_batches.evaluation_batches(lengths, 3, True)
    assert [x.tolist() for x in sorted_] == [[1, 3, 0], [2]]
    assert finetune_batches.bucket_lengths("", 48) == (48,)
    lengths = finetune_batches.bucket_lengths("auto", 100)
    assert lengths == (16, 32, 48, 64, 96, 100)
    assert finetune_batches.bucket_lengths("8,20", 16) == (8, 16)
    assert finetune_batches.fitting_length(9, (8, 16)) == 16
    for text in ("8,4", "x", "0,3", "8,8"):
        with pytest.raises(UserError, match="--length_buckets"):
            finetune_batches.bucket_lengths(text, 16)


def test_input_fn_yields_the_contract():
    pytest.importorskip("tensorflow")
    params = {"batch_size": 2, "start_step": 5}
    make = finetune_pipeline.make_input_fn
    train = iter(make(table(), 8, True, seed=3)(params))
    batch = next(train)
    wanted = finetune_batches.training_batch(table().lengths(), 2, 3, 5)
    assert batch["example_index"].numpy().tolist() == wanted.tolist()
    assert batch["input_ids"].shape == (2, 8)
    dataset = make(table(), 8, False, buckets=(4, 8), names=())(params)
    assert dataset.element_spec["input_ids"].shape.as_list() == [2, None]
    shapes, indices = [], []
    for batch in dataset:
        assert "label_ids" not in batch
        shapes.append(batch["input_ids"].shape[1])
        indices += batch["example_index"].numpy().tolist()
    assert (shapes, indices) == ([4, 8], [0, 2, 1, -1])
    with pytest.raises(UserError, match="no examples"):
        make(finetune_table.from_sequences([]), 8, False)


def test_cache_key_is_checked_inside_the_file(tmp_path):
    key = {"data": "a"}
    path = finetune_cache.cache_path(str(tmp_path), "x", key)
    finetune_cache.save(path, key, {"a": np.arange(3)})
    assert finetune_cache.load(path, key)["a"].tolist() == [0, 1, 2]
    # A file that was renamed to another key's name is not taken.
    other = finetune_cache.cache_path(str(tmp_path), "x", {"data": "b"})
    os.rename(path, other)
    assert finetune_cache.load(other, {"data": "b"}) is None
    assert os.listdir(tmp_path) == [os.path.basename(other)]


def test_a_cache_that_is_none_is_made_again(tmp_path):
    path, key = str(tmp_path / "a.npz"), {"data": "a"}
    stamp = np.frombuffer(finetune_cache.key_text(key).encode(), np.uint8)
    many = np.zeros(1 << 20, np.uint8)
    np.savez_compressed(path, x=many, **{finetune_cache.KEY: stamp})
    assert finetune_cache.load(path, key) is None
    np.savez(path, **{finetune_cache.KEY: np.frombuffer(b"\xff", np.uint8)})
    assert finetune_cache.load(path, key) is None
    header = b"\x93NUMPY\x01\x00" + (6001).to_bytes(2, "little") + b"(" * 6000
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{finetune_cache.KEY}.npy", header + b"\n")
    assert finetune_cache.load(path, key) is None
    finetune_cache.save(path, key, {"x": many})
    assert finetune_cache.load(path, key)["x"].size == many.size


def test_hash_depends_on_boundaries():
    a = finetune_cache.hash_texts(["ab", "c"])
    assert a != finetune_cache.hash_texts(["a", "bc"])
    assert a == finetune_cache.hash_texts(iter(["ab", "c"]))
    assert json.loads(finetune_cache.key_text({"x": 1}))["format_version"] == 2
