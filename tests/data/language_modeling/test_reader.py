"""Batches of streams: every token once, any step at once, the anchor's rows."""

import dataclasses
import gzip
import json

import numpy as np
import pytest

from common.contract.schema import LANGUAGE_MODEL_BATCH
from common.errors import UserError
from data.language_modeling.options import StreamReadOptions
from data.language_modeling.reader import StreamReader, make_dataset
from tests.data.language_modeling.stream_builds import (
    TEXTS,
    batches,
    pairs_of,
    run,
    stream_of,
)
from training.step.guards import translate_errors


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """Several blocks, records shorter than segments and longer."""
    folder = tmp_path_factory.mktemp("streams")
    return run(folder, texts=TEXTS, block_megabytes=0.0002)


@pytest.mark.parametrize("rows,length", [(1, 7), (3, 16), (5, 11), (4, 33)])
def test_training_rows_go_round_the_stream(manifest, rows, length):
    whole = stream_of(manifest)
    places = len(whole) - 1
    options = StreamReadOptions(rows, length, read_ahead=3)
    reader = StreamReader(manifest, "train", options)
    steps = 2 * -(-places // length) + 3
    joined = batches(reader, steps)
    assert joined["reset_memory"][0].all()
    for row, (inputs, targets) in enumerate(pairs_of(joined)):
        first = row * places // rows
        expected = np.concatenate([np.arange(first, places)] + [
            np.arange(places)] * 3)[: len(inputs)]  # fmt: skip
        assert (inputs == whole[expected]).all()
        assert (targets == whole[expected + 1]).all()
        # Memory is emptied exactly where a row comes back to the beginning.
        weights = joined["target_weights"][:, row].sum(-1)
        ends = np.cumsum(weights).astype(int) + first
        segment_start = np.insert(ends[:-1], 0, first)
        resets = (segment_start % places == 0) & (segment_start > 0)
        resets[0] = True
        assert (joined["reset_memory"][:, row] == resets).all()
        assert (weights[weights < length] > 0).all()


@pytest.mark.parametrize("order", ["ordered", "shuffled"])
def test_some_rows_are_those_of_the_whole_batch(manifest, order):
    options = StreamReadOptions(6, 9, order=order)
    whole = StreamReader(manifest, "train", options, seed=5).chunk(1)
    for rows in ((0, 1, 2), (4, 3)):
        mine = dataclasses.replace(options, rows=rows)
        part = StreamReader(manifest, "train", mine, seed=5).chunk(1)
        for name, value in whole.items():
            np.testing.assert_array_equal(part[name], value[:, list(rows)])


def test_a_step_is_a_function_of_seed_and_step(manifest):
    for order, varied in (
        ("ordered", False),
        ("shuffled", False),
        ("ordered", True),
        ("shuffled", True),
    ):
        options = StreamReadOptions(
            3, 9, order=order, vary_length=varied, read_ahead=4
        )
        reader = StreamReader(manifest, "train", options, seed=5)
        whole = batches(reader, 60)
        for start in (0, 1, 4, 17, 41, 59):
            late = StreamReader(manifest, "train", options, seed=5)
            resumed = batches(late, 1, start)
            for name, value in resumed.items():
                assert (value[0] == whole[name][start]).all(), (order, start)


def test_varied_segments_read_every_place_once_per_epoch(manifest):
    whole, seen = stream_of(manifest), set()
    options = StreamReadOptions(3, 20, vary_length=True)
    dataset = make_dataset(manifest, "train", options, seed=3)
    assert dataset.element_spec["input_ids"].shape == (3, None)
    epochs: list = []
    for batch in dataset.take(60).as_numpy_iterator():
        if batch["reset_memory"].all():
            epochs.append([])
        epochs[-1].append(batch)
    assert len(epochs) > 3
    for epoch in epochs[:-1]:
        joined = {k: np.concatenate([b[k] for b in epoch], 1) for k in LANES}
        used = joined["target_weights"] == 1
        for name, expected in zip(LANES, (whole[:-1], whole[1:]), strict=False):
            rows = [row[u] for row, u in zip(joined[name], used, strict=True)]
            assert (np.concatenate(rows) == expected).all()
        lengths = [b["input_ids"].shape[1] for b in epoch]
        assert all(5 <= n <= 35 for n in lengths[:-1])
        seen.add(tuple(lengths))
        assert not any(b["reset_memory"].any() for b in epoch[1:])
    assert len(seen) == len(epochs) - 1


LANES = ("input_ids", "target_ids", "target_weights")


@pytest.mark.parametrize("rows,length", [(1, 8), (4, 10), (7, 50)])
def test_evaluation_predicts_every_token_once(manifest, rows, length):
    whole = stream_of(manifest)
    options = StreamReadOptions(rows, length)
    dataset = make_dataset(manifest, "train", options, training=False)
    got = list(dataset.as_numpy_iterator())
    reader = StreamReader(manifest, "train", options, training=False)
    assert len(got) == reader.schedule.steps_per_epoch
    stacked = {k: np.stack([b[k] for b in got]) for k in got[0]}
    pairs = pairs_of(stacked)
    inputs = np.concatenate([i for i, _ in pairs])
    targets = np.concatenate([t for _, t in pairs])
    assert (inputs == whole[:-1]).all()  # lanes join
    assert (targets == whole[1:]).all()
    assert len(targets) == manifest.split_counts("train").tokens - 1
    resets = stacked["reset_memory"]
    assert resets[0].all() and not resets[1:].any()


def test_the_anchors_rows(golden, tmp_path):
    """Batches of the original's records and batchify, in its own numbers."""
    with gzip.open(golden / "txl" / "data" / "pipeline.json.gz") as f:
        pipeline = json.load(f)
    for name, dataset in (("wt103", "wikitext-103"), ("ptb", "ptb")):
        case = pipeline[name]
        folder = tmp_path / name
        folder.mkdir()
        for file, text in case["files"].items():
            (folder / file).write_text(text, encoding="utf-8")
        manifest = run(folder, dataset=dataset, data_path=str(folder))
        for record in case.get("records", ()):
            settings = record["settings"]
            if settings["num_passes"] == 1:
                check_record(manifest, record, settings)


def check_record(manifest, record, settings):
    rows, length = settings["batch_size"], settings["tgt_len"]
    options = StreamReadOptions(rows, length, protocol="anchor")
    training = settings["use_tpu"]  # drops the short last batch
    reader = StreamReader(
        manifest, settings["split"], options, training=training
    )
    (entries,) = record["files"].values()
    steps = record["record_info"]["num_batch"]
    assert reader.schedule.steps_per_epoch == steps
    joined = batches(reader, steps)
    # A tower's rows are cut apart in the original's file.
    assert len(entries) == steps * rows
    for number, entry in enumerate(entries):
        step, row = divmod(number, rows)
        size = len(entry["inputs"])
        weights = joined["target_weights"][step, row]
        assert weights.sum() == size and weights[:size].all()
        assert joined["input_ids"][step, row, :size].tolist() == entry["inputs"]
        assert (
            joined["target_ids"][step, row, :size].tolist() == entry["labels"]
        )


def test_the_free_mark_can_be_left_out(tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    texts = {"train": "a b\nc\n\nd e f\n" * 5, "valid": "a\nb c\n"}
    manifest = run(
        folder, texts=texts, line_end="marks", block_megabytes=0.00002
    )
    assert len(manifest.select("train")) > 2
    for rows in (1, 4):
        options = StreamReadOptions(rows, 5, count_mark_pairs=False)
        dataset = make_dataset(manifest, "train", options, training=False)
        weights = sum(
            b["target_weights"].sum() for b in dataset.as_numpy_iterator()
        )
        most = manifest.split_counts("train").tokens - 1
        assert weights == most - manifest.mark_pairs("train") < most
    with pytest.raises(UserError, match="protocol=anchor"):
        dataclasses.replace(options, protocol="anchor")


def test_the_dataset_follows_the_schema(manifest):
    options = StreamReadOptions(4, 6, read_ahead=5, prefetch=2)
    dataset = make_dataset(manifest, "train", options, seed=3, start_step=7)
    sizes = {"B": 4, "T": 6}
    assert set(dataset.element_spec) == set(LANGUAGE_MODEL_BATCH)
    for name, field in LANGUAGE_MODEL_BATCH.items():
        spec = dataset.element_spec[name]
        assert spec.shape == [sizes[x] for x in field.shape.split()], name
        assert spec.dtype.name == field.dtype, name
    batch = next(dataset.as_numpy_iterator())
    wanted = batches(StreamReader(manifest, "train", options, seed=3), 1, 7)
    for name, value in batch.items():
        assert (value == wanted[name][0]).all(), name


def test_what_does_not_fit_is_one_line(manifest, tmp_path):
    tokens = manifest.split_counts("valid").tokens
    with pytest.raises(UserError, match=f"longer than the stream of {tokens}"):
        StreamReader(manifest, "valid", StreamReadOptions(1, tokens))
    with pytest.raises(UserError, match="a batch of 99 rows needs more"):
        StreamReader(manifest, "valid", StreamReadOptions(99, 2))
    with pytest.raises(UserError, match="hold no segment of 30 tokens"):
        StreamReader(
            manifest, "valid", StreamReadOptions(9, 30, protocol="anchor")
        )
    with pytest.raises(UserError, match="no test split, only train, valid"):
        make_dataset(manifest, "test", StreamReadOptions(2, 4))
    letters = run(
        tmp_path, texts={"train": "abc" * 40}, unit="char", line_end="none"
    )
    with pytest.raises(UserError, match="sentences cannot be shuffled"):
        StreamReader(
            letters, "train", StreamReadOptions(2, 4, order="shuffled")
        )
    path = tmp_path / "out" / letters.files[0].name
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="record 0: wrong checksum") as info:
        with translate_errors(1, None):
            options = StreamReadOptions(2, 4)
            for _ in make_dataset(letters, "train", options, training=False):
                pass
    assert path.name in str(info.value) and "\n" not in str(info.value)
