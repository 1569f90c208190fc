"""A name is recalled as far back as a model sees, and no further."""

import types

import numpy as np
import pytest

from studies.language import memory_probe
from studies.language.memory_probe import PROBES, SEGMENTS, Probe, Task


def test_the_text_asks_once_for_the_last_name():
    task = Task(names=3, rows=4, segment=12)
    ids, gaps = memory_probe.text(task, 90, seed=3)
    assert gaps.max() > 4 * task.segment  # far answers exist
    assert gaps.max() <= task.reach and gaps[gaps > 0].min() >= 2
    for row in range(task.rows):
        places = np.flatnonzero(gaps[row])
        assert len(places) > 10
        for place in places:
            assert ids[row, place - 1] == task.question_id
            assert place % task.segment > 0  # the question is in its segment
            start = place - gaps[row, place]
            assert ids[row, start] == ids[row, place] < task.names
            # Nothing between tells a name or asks for one.
            between = ids[row, start + 1 : place - 1]
            assert (between > task.question_id).all()
    assert ids.max() < task.mask_id < task.vocab_size


def test_distance_is_counted_in_segments():
    gaps = np.array([[0, 0, 0, 0, 1, 2, 0, 0, 6, 0]])
    back = memory_probe.segments_back(gaps, 4)
    # Places 4, 5 and 8: statements at 3, 3 and 2, segments 0, 0 and 0.
    np.testing.assert_array_equal(back[0, [4, 5, 8]], [1, 1, 2])
    assert (np.delete(back[0], [4, 5, 8]) == -1).all()


@pytest.mark.parametrize("length", [1, SEGMENTS])
def test_every_answer_is_asked_once_whatever_the_length_of_rows(length):
    task = Task(names=3, rows=2 * SEGMENTS, segment=12)
    ids, gaps = memory_probe.text(task, 20, seed=5)
    back = memory_probe.segments_back(gaps, task.segment)
    probe = Probe("bert", length=length)
    distances, tokens = [], 0
    for piece, positions, weights, answers in memory_probe.batches(
        task, probe, ids, back
    ):
        assert piece.shape == (10 // length, 12 * length)
        tokens += piece.size
        used = weights > 0
        assert (answers[used] >= 0).all() and (answers[~used] < 0).all()
        chosen = np.take_along_axis(piece, positions, 1)[used]
        assert (chosen < task.names).all()
        distances.append(answers[used])
    assert tokens == ids.size
    np.testing.assert_array_equal(
        np.bincount(np.concatenate(distances)), np.bincount(back[back >= 0])
    )


def test_results_are_read_back(tmp_path):
    path = str(tmp_path / "memory_probe.tsv")
    assert memory_probe.read(path) == {}
    rng = np.random.default_rng(7)
    results = {
        "BERT": [rng.random(SEGMENTS + 1) for _ in range(2)],
        "XLNet, M = T": [rng.random(SEGMENTS + 1)],
    }
    with open(path, "w") as f:
        f.write("\n".join(memory_probe._lines(results)) + "\n")
    again = memory_probe.read(path)
    assert list(again) == list(results)
    for name, of_seeds in results.items():
        np.testing.assert_allclose(again[name], of_seeds, atol=5e-5)


def test_a_bucket_has_the_table_and_goes_on(tmp_path, monkeypatch):
    """A local folder of the bucket's name was made."""
    bucket, asked = "ram://probe/out", []

    def accuracies(task, probe, seed):
        asked.append(seed)
        return np.full(SEGMENTS + 1, 0.5)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory_probe, "accuracies", accuracies)
    monkeypatch.setattr(memory_probe, "draw", lambda *_: [])
    for seeds in (1, 2):
        given = types.SimpleNamespace(steps=9, seeds=seeds, output_dir=bucket)
        monkeypatch.setattr(memory_probe, "FLAGS", given)
        memory_probe.main()
    assert asked == [0] * len(PROBES) + [1] * len(PROBES)
    found = memory_probe.read(f"{bucket}/memory_probe.tsv")
    assert {len(of_seeds) for of_seeds in found.values()} == {2}
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_the_figure_has_a_panel_per_model(tmp_path):
    rng = np.random.default_rng(7)
    results = {
        name: [rng.random(SEGMENTS + 1) for _ in range(2)] for name in PROBES
    }
    stem = str(tmp_path / "memory_probe")
    paths = memory_probe.draw(results, Task(), stem)
    assert paths == [f"{stem}.png", f"{stem}.svg"]
    svg = (tmp_path / "memory_probe.svg").read_text()
    assert svg.count("<!-- segments back -->") == len(PROBES)
    assert "<!-- n = 2 seeds" in svg


# A model of each way to read; the others differ in numbers alone.
_QUICK = ("XLNet, M = T", "Transformer-XL, M = 4 T", "BERT, rows of 5 T")


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in PROBES
    ],
)
def test_every_model_reads_and_learns(name):
    task = Task(names=2, rows=SEGMENTS, segment=6, steps=60, eval_steps=20)
    runner = memory_probe.Runner(task, PROBES[name], seed=1)
    before = [v.numpy() for v in runner.model.trainable_variables]
    losses, right, back = runner.run(task.steps, 2, training=True)
    assert np.mean(losses[-20:]) < 0.5 * losses[0]
    assert right.shape == back.shape and set(back) == set(range(SEGMENTS + 1))
    moved = [
        not np.array_equal(old, v.numpy())
        for old, v in zip(before, runner.model.trainable_variables, strict=True)
    ]
    assert np.mean(moved) > 0.8


@pytest.mark.slow
def test_memory_decides_what_is_recalled():
    task = Task(names=4, segment=8, steps=800, eval_steps=200)
    with_memory = memory_probe.accuracies(task, PROBES["XLNet, M = T"], 0)
    without = memory_probe.accuracies(task, PROBES["XLNet, no memory"], 0)
    assert with_memory[:2].min() > 0.9 and without[0] > 0.9
    assert with_memory[3:].max() < 0.45 and without[2:].max() < 0.45
