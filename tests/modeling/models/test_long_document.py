"""Segments with memory: known and unknown widths give the same."""

import types

import numpy as np
import pytest
import tensorflow as tf

from modeling import ClassificationModel, MultipleChoiceModel, XLNetConfig
from modeling.models.long_document import LongDocument

T = 6
CONFIG = XLNetConfig(
    vocab_size=31,
    d_model=20,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=24,
    init_std=0.4,
    mem_len=T,
)


def rows(lengths, width, options=0):
    """Left-padded rows of `width` with so many real tokens."""
    rng = np.random.default_rng(1)
    shape = (len(lengths), width)
    mask = np.arange(width) >= width - np.array(lengths)[:, None]
    arrays = [
        np.where(mask, rng.integers(9, 31, shape), 0),
        np.where(mask, 0, 4),
        mask.astype(int),
    ]
    if options:
        arrays = [x.reshape(-1, options, width) for x in arrays]
    return [tf.constant(x, tf.int32) for x in arrays]


@pytest.fixture(scope="module", params=[0, 2])
def read(request):
    """(options, reader, the reader traced once for every width)."""
    options = request.param
    tf.keras.utils.set_random_seed(3)
    model = MultipleChoiceModel(CONFIG)
    if not options:
        model = ClassificationModel(CONFIG, num_labels=2)
    reader = LongDocument(model, T)
    spec = tf.TensorSpec([None] * (3 if options else 2), tf.int32)
    unknown = tf.function(
        reader.__call__, input_signature=[spec] * 3, autograph=False
    )
    return options, reader, unknown


@pytest.mark.long
@pytest.mark.parametrize("width", [4, 6, 7, 12, 20])
def test_unknown_widths_give_what_known_ones_give(width, read):
    options, reader, unknown = read
    inputs = rows([width, 3, width - 1, 1], width, options)
    found = unknown(*inputs)
    np.testing.assert_allclose(found, reader(*inputs), atol=2e-6)
    if T < width <= 3 * T:
        # Two layers reach two segments back: the first token counts, padding
        # in front of the row does not.
        padded = [
            tf.pad(x, [[0, 0]] * (x.shape.rank - 1) + [[9, 0]]) for x in inputs
        ]
        np.testing.assert_allclose(found, reader(*padded), atol=2e-6)
        changed = inputs[0].numpy()
        changed[(0,) * (changed.ndim - 1) + (0,)] += 1
        other = unknown(tf.constant(changed % 31), *inputs[1:])
        assert np.abs(other - found).max() > 1e-6


def test_a_model_without_enough_memory_is_refused():
    model = ClassificationModel(CONFIG.replace(mem_len=4), num_labels=2)
    with pytest.raises(ValueError, match="must be at least 6, found 4"):
        LongDocument(model, T)


class Recorder:
    """A task model that keeps the calls of its encoder and of itself."""

    config = CONFIG.replace(mem_len=5)

    def __init__(self):
        self.calls = []

    def encoder(self, **arguments):
        self.calls.append(arguments)
        rows = tf.shape(arguments["input_ids"])[0]
        memory = tuple(tf.zeros([rows, 5, 2]) for _ in range(2))
        return types.SimpleNamespace(new_memory=memory)

    def __call__(self, **arguments):
        self.calls.append(arguments)
        return "answer"


def test_each_segment_has_its_tokens_its_seed_and_the_length_of_its_memory():
    ids = np.array(
        [[0, 0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 0, 0, 0, 1, 2, 3, 4]]
    )
    mask = (ids > 0).astype(np.int32)
    model = Recorder()
    reader = LongDocument(model, 4)
    answer = reader(
        ids, mask * 2, mask, training=True, seed=tf.constant([1, 2])
    )
    assert answer == "answer"
    read = [call["input_ids"].numpy().tolist() for call in model.calls]
    assert read == [
        [[0, 0, 0, 0], [0, 0, 0, 0]],
        [[1, 2, 3, 4], [0, 0, 0, 0]],
        [[5, 6, 7, 8], [1, 2, 3, 4]],
    ]
    lengths = [call.get("memory_length") for call in model.calls]
    assert lengths[0] is None
    assert [n.numpy().tolist() for n in lengths[1:]] == [[0, 0], [4, 0]]
    seeds = {tuple(call["seed"].numpy()) for call in model.calls}
    assert len(seeds) == 3
    assert all(call["training"] for call in model.calls)


def test_no_more_memory_counts_than_is_kept():
    ids = np.arange(1, 17)[np.newaxis]
    model = Recorder()
    LongDocument(model, 4)(ids, ids * 0, ids * 0 + 1)
    lengths = [call.get("memory_length") for call in model.calls[1:]]
    assert [n.numpy().tolist() for n in lengths] == [[4], [5], [5]]
