"""Lanes, rows and batches: every token once, whatever reads them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import UserError
from data.pretraining import build
from data.pretraining import lanes as lanes_lib
from data.pretraining.block_builder import BlockBuilder
from data.pretraining.lanes import LaneReader
from data.pretraining.options import BuildOptions, ReaderOptions
from data.pretraining.run_data import RunData
from data.pretraining.sampling import permutation
from data.records.build_plan import read_json
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lanes")


@pytest.fixture(scope="module")
def manifest(folder):
    return builds.run(folder, num_passes=2)


def expected_lanes(manifest, folder):
    """Tokens of every lane, from the text alone: {direction: {tokens}}."""
    options = BuildOptions(
        input_glob=str(folder / "corpus.txt"),
        spiece_model_file=str(folder / "spiece.model"),
        output_dir=manifest.data_dir,
        **manifest.options,
    )
    record = read_json(manifest.data_dir + "/plan.json")
    layout = build.TwoSegments(options)
    blocks = layout.plan_blocks()
    plan = layout.make_plan(blocks, record, lambda: None, print)
    builder = BlockBuilder(options, plan)
    size = manifest.segments_per_lane["train"] * manifest.reuse_len
    lanes = ([], [])
    for block in range(len(plan.blocks)):
        stream = builder._streams(block)[0]["train"]
        for direction in range(1 + manifest.bi_data):
            ids = stream.ids[::-1] if direction else stream.ids
            lanes[direction].extend(
                tuple(ids[i : i + size].tolist())
                for i in range(0, len(ids), size)
            )
    return lanes


def read_epoch(manifest, **changes):
    """One epoch: arrays [steps, rows, ...]."""
    options = ReaderOptions(repeat=False, **changes)
    chunks = list(LaneReader(manifest, options).chunks())
    return {k: np.concatenate([c[k] for c in chunks]) for k in chunks[0]}


def lanes_of(epoch, manifest, directions):
    """Tokens of the reuse parts of every lane that was read."""
    lanes = ([], [])
    part = slice(0, manifest.reuse_len)
    steps, rows = epoch["reset_memory"].shape
    for row in range(rows):
        current = None
        for step in range(steps):
            if epoch["reset_memory"][step, row]:
                current = []
                lanes[directions[row]].append(current)
            real = epoch["input_mask"][step, row, part] == 1
            current.extend(epoch["input_ids"][step, row, part][real].tolist())
    return [[tuple(x) for x in of if x] for of in lanes]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(half=st.integers(1, 20), seed=st.integers(0, 99))
def test_every_token_once(manifest, folder, half, seed):
    epoch = read_epoch(manifest, global_batch=2 * half, seed=seed)
    # Forward rows, then backward rows.
    found = lanes_of(epoch, manifest, [0] * half + [1] * half)
    for direction, wanted in enumerate(expected_lanes(manifest, folder)):
        assert sorted(found[direction]) == sorted(wanted)


def test_a_step_is_a_function_of_seed_and_step(manifest):
    options = ReaderOptions(global_batch=12, seed=5, read_ahead=3)
    whole = LaneReader(manifest, options)
    steps = []
    for chunk in whole.chunks():
        steps += [
            {k: v[i] for k, v in chunk.items()}
            for i in range(len(chunk["ranks"]))
        ]
        if len(steps) > 60:
            break
    for start in (0, 1, 4, 5, 23, 50):
        late = dataclasses.replace(options, start_step=start)
        chunk = next(LaneReader(manifest, late).chunks())
        for name, value in chunk.items():
            assert (value[0] == steps[start][name]).all(), (start, name)


@pytest.mark.parametrize("flag", ["resample_permutation", "resample_targets"])
def test_orders_of_the_original_are_not_drawn_anew(manifest, flag):
    original = dataclasses.replace(
        manifest, options=manifest.options | {"sampler": "original"}
    )
    message = f"--{flag}: wanted data of .*found .*--sampler=original"
    with pytest.raises(UserError, match=message):
        LaneReader(original, ReaderOptions(global_batch=2, **{flag: True}))
    with pytest.raises(UserError, match=message):  # before anything is written
        RunData(original).train_batches(0, **{flag: True})
    RunData(original).train_batches(0, **{flag: False})


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_read_their_rows_alone(manifest, processes, monkeypatch):
    """Any number of processes has the same rows, and reads 1/n each."""
    options = ReaderOptions(global_batch=16, seed=5, resample_permutation=True)
    whole = LaneReader(manifest, options).chunk(2)
    read, size = [], manifest.format.record_size
    original = type(manifest.format).read
    monkeypatch.setattr(
        type(manifest.format),
        "read",
        lambda self, file, path, first, count: (
            read.append(count * size)
            or original(self, file, path, first, count)
        ),
    )
    for process in range(processes):
        read.clear()
        # Forward and backward rows, as of replicas with accumulation.
        rows = np.arange(16).reshape(2, processes, -1)[:, process].T.reshape(-1)
        mine = dataclasses.replace(options, rows=tuple(rows.tolist()))
        chunk = LaneReader(manifest, mine).chunk(2)
        for name, value in whole.items():
            np.testing.assert_array_equal(chunk[name], value[:, rows], name)
        steps = len(whole["ranks"])
        assert sum(read) == steps * 16 // processes * size


def test_epochs_read_other_passes_in_another_order(manifest):
    lanes = manifest.lanes("train")
    reader = LaneReader(manifest, ReaderOptions(global_batch=2 * lanes))
    ids = []
    for number, chunk in enumerate(reader.chunks()):
        ids.append(chunk)
        if number == 2:
            break
    first = {x.tobytes() for x in ids[0]["input_ids"][0, :lanes, :20]}
    second = {x.tobytes() for x in ids[1]["input_ids"][0, :lanes, :20]}
    assert first == second  # the same reuse parts
    assert (ids[0]["input_ids"] != ids[1]["input_ids"]).any()
    targets = [x["target_positions"].tobytes() for x in ids]
    assert len(set(targets)) == 3


def test_every_pass_is_read_and_then_the_first_again(manifest):
    lanes = manifest.lanes("train")
    reader = LaneReader(manifest, ReaderOptions(global_batch=2 * lanes))
    part, found = slice(0, manifest.reuse_len), []
    for number in range(3):
        chunk = reader.chunk(number)
        ids = np.swapaxes(chunk["input_ids"][..., part], 0, 1)
        order = np.argsort([x.tobytes() for x in ids])
        found.append(chunk["ranks"][:, order][..., part])
    assert (found[0] != found[1]).any()
    np.testing.assert_array_equal(found[0], found[2])


def test_every_chunk_and_lane_is_drawn_again_from_its_own_seed(
    manifest, monkeypatch
):
    drawn = []
    monkeypatch.setattr(
        lanes_lib,
        "draw",
        lambda row, manifest, rng, *rest: drawn.append(rng.random()),
    )
    lanes = manifest.lanes("train")
    options = ReaderOptions(
        global_batch=2 * lanes, read_ahead=1, resample_permutation=True
    )
    reader = LaneReader(manifest, options)
    steps = 2 * reader.steps_per_epoch
    for number in range(steps):
        reader.chunk(number)
    assert len(set(drawn)) == len(drawn) == steps * 2 * lanes


@pytest.mark.long
def test_resampling_draws_what_was_asked(folder):
    manifest = builds.run(folder, "once")
    lanes = manifest.lanes("train")

    def epoch(**changes):
        options = ReaderOptions(global_batch=2 * lanes, seed=2, **changes)
        reader = LaneReader(manifest, options)
        found = []
        for number in range(2):
            chunk = reader.chunk(number)
            order = np.argsort([x.tobytes() for x in chunk["input_ids"][0]])
            found.append({k: v[:, order] for k, v in chunk.items()})
        return found

    a, b = epoch()
    for name in ("ranks", "target_positions", "input_ids"):
        assert (a[name] == b[name]).all(), name
    a, b = epoch(resample_permutation=True)
    assert (a["target_positions"] == b["target_positions"]).all()
    assert (a["ranks"] != b["ranks"]).any()
    assert ((a["ranks"] >= 0) == (b["ranks"] >= 0)).all()
    a, b = epoch(resample_targets=True)
    # As many as are stored: the same rule, the same slots.
    stored, _ = epoch()
    fresh = a["target_weights"].sum() / stored["target_weights"].sum()
    assert fresh == pytest.approx(1, abs=0.05)
    assert (a["target_positions"] != b["target_positions"]).any()
    assert (a["input_ids"] == b["input_ids"]).all()
    again = epoch(resample_targets=True)[1]
    assert (again["ranks"] == b["ranks"]).all()
    check_targets(b, manifest)


def check_targets(batch, manifest):
    """Targets are real, not functional, and as many as is said."""
    used = batch["target_weights"] == 1
    positions = batch["target_positions"].astype(np.int64)
    ids = np.take_along_axis(batch["input_ids"], positions, -1)
    assert (batch["target_ids"] == np.where(used, ids, 0)).all()
    functional = manifest.symbols.functional()
    assert not np.isin(ids[used], functional).any()
    mask = np.take_along_axis(batch["input_mask"], positions, -1)
    assert (mask[used] == 1).all()
    ranks = np.take_along_axis(batch["ranks"], positions, -1)
    second = positions >= manifest.reuse_len
    low = np.where(second, manifest.reuse_len + 1, 0)
    assert (ranks >= low)[used].all()
    assert ((ranks < manifest.reuse_len) | second)[used].all()


def test_targets_and_lengths(manifest):
    epoch = read_epoch(manifest, global_batch=16)
    check_targets(epoch, manifest)
    real = epoch["row_weight"] == 1
    assert (epoch["input_mask"].sum(-1) > 0).tolist() == real.tolist()
    assert 0.1 < epoch["next_sentence_label"][real].mean() < 0.9
    ids = epoch["input_ids"]
    cls = (ids == manifest.symbols.cls).sum(-1)
    sep = (ids == manifest.symbols.sep).sum(-1)
    assert (sep == 2 * cls).all() and cls.max() == 1
    assert (epoch["segment_ids"][ids == manifest.symbols.cls] == 2).all()


def test_materialized_masks_equal_the_ranks(folder):
    manifest = builds.run(folder, "masks", materialize_masks=True)
    plain = builds.run(folder, "plain")
    a = next(LaneReader(manifest, ReaderOptions(global_batch=4)).chunks())
    b = next(LaneReader(plain, ReaderOptions(global_batch=4)).chunks())
    b = {k: v[: len(a["ranks"])] for k, v in b.items()}
    for name, value in b.items():
        assert (a[name] == value).all(), name
    n, t, p = 4, manifest.seq_len, manifest.num_predict
    is_target = np.zeros((n, t), bool)
    used = b["target_weights"][0] == 1
    rows = np.nonzero(used)[0]
    is_target[rows, b["target_positions"][0][used]] = True
    mask = permutation.perm_mask(b["ranks"][0], is_target)
    assert (a["perm_mask"][0] == mask).all()
    assert a["target_mapping"].shape[1:] == (n, p, t)
    assert (a["target_mapping"][0].sum(-1) == b["target_weights"][0]).all()


def test_no_target_leaks_through_memory(manifest):
    """Over two segments: what memory holds never saw the next one's tokens.

    Reachability over the mask graph, in both streams: from a target of the
    second segment backward through (content of segment 2) and (memory =
    content of segment 1's reuse part), its own token must not be reached.
    """
    reader = LaneReader(manifest, ReaderOptions(global_batch=8))
    chunk = reader.chunk(0)
    size = manifest.reuse_len
    for row in range(8):
        first, second = (
            {k: v[i, row] for k, v in chunk.items()} for i in (0, 1)
        )
        seen = []
        for segment in (first, second):
            hot = np.zeros(manifest.seq_len, bool)
            used = segment["target_weights"] == 1
            hot[segment["target_positions"][used]] = True
            mask = permutation.perm_mask(segment["ranks"][None], hot[None])[0]
            content = ~mask | np.eye(len(mask), dtype=bool)
            reach = content
            for _ in range(6):  # as through that many pairs of layers
                reach = (reach.astype(int) @ reach.astype(int)) > 0
            seen.append((hot, ~mask, reach))
        # The reuse part's content never reaches the second part, where the
        # next segment's tokens are.
        assert not seen[0][2][:size, size:].any()
        for hot, query, reach in seen:
            through = (query.astype(int) @ reach.astype(int)) > 0
            assert not through[hot, np.flatnonzero(hot)].any()


def test_bad_batches_are_refused(manifest):
    with pytest.raises(UserError, match="must divide by 2"):
        LaneReader(manifest, ReaderOptions(global_batch=7))
    with pytest.raises(UserError, match="--segments_per_lane=2"):
        rows = 2 * 2 * manifest.lanes("train")
        LaneReader(manifest, ReaderOptions(global_batch=rows))
    with pytest.raises(UserError, match="no dev split"):
        LaneReader(manifest, ReaderOptions(global_batch=2, split="dev"))


def test_reset_at_documents(manifest):
    plain = read_epoch(manifest, global_batch=8)
    reset = read_epoch(manifest, global_batch=8, reset_memory_at_document=True)
    more = reset["reset_memory"].sum() - plain["reset_memory"].sum()
    assert more > 10
    assert (reset["reset_memory"] >= plain["reset_memory"]).all()


@pytest.mark.parametrize("bi_data", [True, False])
@pytest.mark.parametrize("seq_len,reuse_len", [(31, 13), (24, 0), (17, 12)])
def test_any_lengths(folder, seq_len, reuse_len, bi_data):
    name = f"odd{seq_len}-{reuse_len}-{bi_data}"
    manifest = builds.run(
        folder, name, seq_len=seq_len, reuse_len=reuse_len, bi_data=bi_data
    )
    epoch = read_epoch(manifest, global_batch=6)
    check_targets(epoch, manifest)
    if reuse_len:
        part = epoch["input_mask"][..., :reuse_len].sum()
    else:  # every token is in one A
        a = (epoch["segment_ids"] == 0) & (epoch["input_mask"] == 1)
        part = a.sum() - epoch["row_weight"].sum()  # less the SEP
    tokens = manifest.counts["train_tokens"]
    assert part == tokens * (1 + bi_data)
