"""Corruption: rates, layouts, determinism, swapped halves."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.pretraining.sampling import masking, permutation, segments
from data.pretraining.sampling.masking import MaskingOptions
from tests.data.pretraining.sampling.toy_batches import IDS, T, V, make_batch


def options(**changes):
    return MaskingOptions(
        **({"vocab_size": V, "symbols": IDS, "reuse_len": 0} | changes)
    )


def test_the_shares_and_who_is_touched():
    batch = make_batch(rows=20_000)
    corrupted = masking.corrupt(batch, tf.constant(3), options())
    before, after = batch["input_ids"].numpy(), corrupted["input_ids"].numpy()
    used = batch["target_weights"].numpy() > 0
    rows = np.arange(len(before))[:, np.newaxis]
    targets = np.zeros_like(before, bool)
    places = batch["target_positions"].numpy()
    targets[np.broadcast_to(rows, places.shape)[used], places[used]] = True
    np.testing.assert_array_equal(before[~targets], after[~targets])
    total = targets.sum()
    drawn = after[targets]
    mask = (drawn == IDS.mask).mean()
    other = ((drawn != before[targets]) & (drawn != IDS.mask)).mean()
    assert total > 99_000
    pieces = V - 9
    for rate, share in ((mask, 0.8), (other, 0.1 * (1 - 1 / pieces))):
        error = (share * (1 - share) / total) ** 0.5
        assert abs(rate - share) < 5 * error
    randoms = drawn[(drawn != IDS.mask) & (drawn != before[targets])]
    assert set(randoms) == set(range(9, V))  # every piece, no symbol
    np.testing.assert_array_equal(corrupted["target_ids"], batch["target_ids"])


def test_draws_depend_on_seed_and_step_only():
    batch = make_batch()

    def ids(step, **changes):
        made = masking.corrupt(batch, tf.constant(step), options(**changes))
        return made["input_ids"].numpy()

    np.testing.assert_array_equal(ids(4), ids(4))
    assert (ids(4) != ids(5)).any() and (ids(4) != ids(4, seed=1)).any()

    # A run that starts at step 3 reads what one from the start reads there.
    def input_fn(params):
        data = tf.data.Dataset.from_tensors(batch).repeat(5)
        return data.skip(params["start_step"])

    make = masking.masked_batches(input_fn, options())
    whole = [b["input_ids"].numpy() for b in make({"start_step": 0})]
    late = [b["input_ids"].numpy() for b in make({"start_step": 3})]
    np.testing.assert_array_equal(whole[3:], late)


@pytest.mark.parametrize(
    "changes", [{"rate": 0.3}, {"pair": "sop", "layout": "cls_first"}]
)
def test_some_rows_are_corrupted_as_in_the_whole_batch(changes):
    rows = [5, 0, 6]
    batch = make_batch(8)
    step, how = tf.constant(3), options(**changes)
    whole = masking.corrupt(batch, step, how)
    some = {k: tf.gather(v, rows) for k, v in batch.items()}
    corrupted = masking.corrupt(some, step, how, rows, 8)
    for name, value in whole.items():
        np.testing.assert_array_equal(
            corrupted[name], value.numpy()[rows], name
        )


def test_cls_comes_to_the_front():
    batch = make_batch()
    corrupted = masking.corrupt(
        batch,
        tf.constant(1),
        options(
            layout="cls_first", mask_share=0.0, random_share=0.0, pair="nsp"
        ),
    )
    ids = corrupted["input_ids"].numpy()
    assert (ids[:, 0] == IDS.cls).all() and (ids[:, -1] == IDS.sep).all()
    assert corrupted["segment_ids"][0].numpy().tolist() == [0] * 14 + [1] * 10
    used = batch["target_weights"].numpy() > 0
    at = np.take_along_axis(ids, corrupted["target_positions"].numpy(), 1)
    np.testing.assert_array_equal(
        at[used], corrupted["target_ids"].numpy()[used]
    )
    # BERT's files: 0 = B follows A.
    np.testing.assert_array_equal(
        corrupted["next_sentence_label"], 1 - batch["next_sentence_label"]
    )


def test_short_rows_begin_with_cls_and_end_in_padding():
    """Rows at the ends of lanes: padded behind CLS, or empty."""
    batch = make_batch(3)
    ids, mask = batch["input_ids"].numpy(), batch["input_mask"].numpy()
    ids[1, 9:] = IDS.pad
    ids[1, [7, 8]] = IDS.sep, IDS.cls
    mask[1, 9:] = mask[2] = 0
    positions = batch["target_positions"].numpy()
    positions[1] = [0, 5, 6, 1, 1]
    batch |= {
        "input_ids": tf.constant(ids),
        "input_mask": tf.constant(mask),
        "target_positions": tf.constant(positions),
    }
    corrupted = masking.corrupt(
        batch,
        tf.constant(1),
        options(layout="cls_first", mask_share=0.0, random_share=0.0),
    )
    moved = corrupted["input_ids"].numpy()
    assert moved[1, 0] == IDS.cls
    np.testing.assert_array_equal(moved[1, 1:9], ids[1, :8])
    assert (moved[1, 9:] == IDS.pad).all()
    np.testing.assert_array_equal(corrupted["input_mask"], mask)
    assert corrupted["target_positions"][1].numpy().tolist() == [1, 6, 7, 2, 2]


def test_a_row_of_text_alone_gets_cls_and_sep():
    """The last segment of a block may have a reuse part and nothing else."""
    batch, text = make_batch(3), 7
    laid_out = segments.layout([12, text, 0], [2, 0, 0], [7, 0, 0], T, 12)
    ids = batch["input_ids"].numpy()
    ids[1, text:] = ids[2] = IDS.pad
    positions = batch["target_positions"].numpy()
    positions[1] = [0, 3, text - 1, 0, 0]
    batch |= {
        "input_ids": tf.constant(ids),
        "segment_ids": tf.constant(laid_out.segment_ids),
        "input_mask": tf.constant(laid_out.input_mask.astype(np.int32)),
        "target_positions": tf.constant(positions),
    }
    corrupted = masking.corrupt(
        batch,
        tf.constant(1),
        options(layout="cls_first", mask_share=0.0, random_share=0.0),
    )
    wanted = [IDS.cls, *ids[1, :text], IDS.sep]
    moved = corrupted["input_ids"].numpy()
    assert moved[1, : text + 2].tolist() == wanted
    assert (moved[1, text + 2 :] == IDS.pad).all()
    mask = corrupted["input_mask"].numpy()
    assert mask.sum(1).tolist() == [T, text + 2, 0]
    assert mask[1, : text + 2].all()
    assert not corrupted["segment_ids"].numpy()[1, : text + 2].any()
    assert corrupted["target_positions"][1, :3].numpy().tolist() == [1, 4, text]
    assert corrupted["pair_weight"].numpy().tolist() == [1.0, 0.0, 0.0]
    assert moved[0, 0] == IDS.cls
    np.testing.assert_array_equal(moved[2], ids[2])  # an empty row


@pytest.mark.parametrize("rate", [0.15, 0.3, 0.9])
def test_fresh_targets_have_the_rate(rate):
    corrupted = masking.corrupt(
        make_batch(64), tf.constant(7), options(rate=rate)
    )
    weights = corrupted["target_weights"].numpy()
    assert (weights.sum(1) == round(rate * (T - 3))).all()
    places = corrupted["target_positions"].numpy()
    batch = make_batch(64)
    for row in range(64):
        row_places = places[row][weights[row] > 0]
        assert len(set(row_places)) == len(row_places)
        ids = batch["input_ids"].numpy()[row, row_places]
        assert not set(ids) & {IDS.sep, IDS.cls}
        np.testing.assert_array_equal(
            corrupted["target_ids"].numpy()[row][weights[row] > 0], ids
        )


def test_a_row_without_a_pair_has_no_pair_weight():
    batch = make_batch(3, a=9)
    reuse_alone = np.ones([3, T], np.int32)
    reuse_alone[1, 4:] = 0
    batch["input_mask"] = tf.constant(reuse_alone)
    for layout in ("cls_last", "cls_first"):
        corrupted = masking.corrupt(
            batch, tf.constant(2), options(pair="nsp", layout=layout)
        )
        assert corrupted["pair_weight"].numpy().tolist() == [1, 0, 1]


def test_swapped_halves():
    batch = make_batch(40, a=9)
    corrupted = masking.corrupt(
        batch,
        tf.constant(2),
        options(
            pair="sop", layout="cls_first", mask_share=0.0, random_share=0.0
        ),
    )
    real = batch["next_sentence_label"].numpy() == 1
    np.testing.assert_array_equal(
        corrupted["pair_weight"], real.astype(np.float32)
    )
    labels = corrupted["next_sentence_label"].numpy()
    assert labels[real].any() and not labels[real].all()
    assert not labels[~real].any()
    before = batch["input_ids"].numpy()
    a, b, cls = before[:, :10], before[:, 10:-1], before[:, -1:]
    for row, swapped in enumerate(labels):
        first, second = (b, a) if swapped else (a, b)
        wanted = np.concatenate([cls[row], first[row], second[row]])
        np.testing.assert_array_equal(corrupted["input_ids"][row], wanted)
        kinds = [0] * (1 + len(first[row])) + [1] * len(second[row])
        assert corrupted["segment_ids"][row].numpy().tolist() == kinds
    used = batch["target_weights"].numpy() > 0
    at = np.take_along_axis(
        corrupted["input_ids"].numpy(), corrupted["target_positions"].numpy(), 1
    )
    np.testing.assert_array_equal(
        at[used], corrupted["target_ids"].numpy()[used]
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rate": 1.0}, "--mask_rate"),
        ({"pair": "sop", "layout": "cls_first", "reuse_len": 4}, "reuse_len=0"),
        ({"pair": "sop"}, "CLS comes first"),
    ],
)
def test_what_cannot_be_is_one_line(change, message):
    with pytest.raises(UserError, match=message):
        options(**change)


REUSE = 2
BATCH = {
    "ranks": np.array([[-1, 0, 3, 4, 2], [1, 0, 2, 2, 3]], np.int32),
    "target_positions": np.array([[1, 3, 2], [0, 4, 0]], np.int32),
    "target_weights": np.array([[1, 1, 1], [1, 1, 0]], np.float32),
    "perm_mask": np.zeros([2, 5, 5], np.float32),
    "target_mapping": np.zeros([2, 3, 5], np.float32),
}
IS_TARGET = np.array([[0, 1, 1, 1, 0], [1, 0, 0, 0, 1]], bool)


def test_without_order_targets_see_the_context_of_their_part():
    found = masking.reorder(BATCH, "none", REUSE)
    assert found["ranks"].numpy().tolist() == [
        [-1, 0, 3, 3, 2],
        [0, -1, 2, 2, 3],
    ]
    hidden = permutation.perm_mask(found["ranks"].numpy(), IS_TARGET)
    # Row 0: target 2 sees the context 0, 4 and the reuse part's target 1.
    assert np.flatnonzero(~hidden[0, 2]).tolist() == [0, 1, 4]
    # The reuse part never sees the second part.
    assert hidden[0, 0, 2:].all() and hidden[0, 1, 2:].all()


def test_forward_is_the_order_of_the_text():
    found = masking.reorder(BATCH, "forward", REUSE)
    assert found["ranks"].numpy().tolist() == [[0, 1, 2, 3, 4]] * 2
    assert not {"perm_mask", "target_mapping"} & set(found)
    assert "perm_mask" in BATCH


def test_a_random_order_is_the_stored_one():
    def input_fn(params):
        return tf.data.Dataset.from_tensors(BATCH).repeat(params["steps"])

    assert masking.ordered_batches(input_fn, "random", 2) is input_fn
    make = masking.ordered_batches(input_fn, "forward", REUSE)
    batches = list(make({"steps": 3}).as_numpy_iterator())
    assert len(batches) == 3
    assert batches[2]["ranks"].tolist() == [[0, 1, 2, 3, 4]] * 2
