"""Which tokens a step reads: windows, the anchor's rows, sentences."""

import numpy as np
import pytest

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


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    """Several blocks, records shorter than segments and longer."""
    folder = tmp_path_factory.mktemp("streams")
    return run(folder, texts=TEXTS, block_megabytes=0.0002)


@pytest.mark.parametrize("stride, rows", [(1, 3), (4, 2)])
def test_windows_predict_every_token_once_from_the_tokens_before(
    manifest, stride, rows
):
    whole = stream_of(manifest, "valid")
    options = StreamReadOptions(rows, 6, protocol="sliding", stride=stride)
    dataset = make_dataset(manifest, "valid", options, training=False)
    targets, contexts = [], []
    for batch in dataset.as_numpy_iterator():
        assert batch["reset_memory"].all()
        for ids, goals, used in zip(
            *(batch[k] for k in ("input_ids", "target_ids", "target_weights")),
            strict=True,
        ):
            for place in np.flatnonzero(used):
                targets.append(goals[place])
                contexts.append(ids[: place + 1])
    np.testing.assert_array_equal(targets, whole[1:])
    for place, context in enumerate(contexts):
        wanted = whole[: place + 1][-len(context) :]
        np.testing.assert_array_equal(context, wanted)
    least = min(len(c) for c in contexts[6:])
    assert least > 6 - stride
    with pytest.raises(UserError, match="cannot move by 7"):
        StreamReadOptions(2, 6, protocol="sliding", stride=7)


def test_the_anchors_training_never_resets(manifest):
    options = StreamReadOptions(3, 16, protocol="anchor")
    reader = StreamReader(manifest, "train", options)
    epoch = reader.schedule.steps_per_epoch
    joined = batches(reader, 2 * epoch)
    assert joined["reset_memory"][0].all()
    assert not joined["reset_memory"][1:].any()
    assert (joined["input_ids"][:epoch] == joined["input_ids"][epoch:]).all()
    assert joined["target_weights"].all()


def test_shuffled_sentences(manifest):
    whole = stream_of(manifest)
    options = StreamReadOptions(3, 10, order="shuffled")
    reader = StreamReader(manifest, "train", options, seed=1)
    steps = reader.schedule.steps_per_epoch
    joined = batches(reader, 2 * steps)
    end = manifest.vocabulary().eos_id
    resets = np.zeros((2 * steps, 3), bool)
    resets[[0, steps]] = True
    assert (joined["reset_memory"] == resets).all()

    def sentences(ids):
        cuts = np.flatnonzero(ids == end) + 1
        return [tuple(x.tolist()) for x in np.split(ids, cuts) if len(x)]

    orders = []
    for epoch in range(2):
        part = slice(epoch * steps, (epoch + 1) * steps)
        pairs = pairs_of({k: v[part] for k, v in joined.items()})
        inputs = np.concatenate([i for i, _ in pairs])
        last = pairs[-1][1][-1:]
        orders.append(sentences(np.concatenate([inputs, last])))
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(sentences(whole))
    assert orders[0] != orders[1] != sentences(whole)
    other = StreamReader(manifest, "train", options, seed=2)
    again = batches(other, steps)
    assert (again["input_ids"] != joined["input_ids"][:steps]).any()
