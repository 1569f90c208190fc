"""Features made in the graph equal the offline ones."""

import numpy as np
import pytest
import tensorflow as tf

from common.contract import symbols
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from data.finetuning.squad import features as squad_features
from serving.signatures import graph_features
from tests.helpers.runs.rows import pad_left

IDS = symbols.SymbolIds()


@pytest.mark.long
@pytest.mark.parametrize("layout", symbols.LAYOUTS)
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_joined_segments_equal_the_offline_ones(segments, layout):
    rng = np.random.default_rng(segments)
    for room in range(0, 21, 2):
        parts = [
            [
                rng.integers(10, 99, rng.integers(0, 15)).tolist()
                for _ in "1234567"
            ]
            for _ in range(segments)
        ]
        length = room + symbols.row_symbols(layout, segments)
        features = graph_features.join_segments(
            [
                tf.ragged.constant(p, tf.int32, row_splits_dtype=tf.int64)
                for p in parts
            ],
            length,
            IDS,
            pad_to=length,
            layout=layout,
        )
        for row in range(7):
            sequence = pair_features.join_segments(
                [p[row] for p in parts], length, IDS, layout
            )
            wanted = pad_left(sequence, length)
            if symbols.is_cls_first(layout):
                table = finetune_table.from_sequences(
                    [sequence], **pair_features.padding(layout)
                )
                made = table.batch(np.arange(1), length)
                names = ("input_ids", "segment_ids", "input_mask")
                wanted = [made[name][0] for name in names]
                assert wanted[0][0] == IDS.cls and wanted[1].max() < segments
            for a, b in zip(features[:3], wanted, strict=True):
                np.testing.assert_array_equal(a[row], b)
            assert features.lengths[row] == len(sequence.ids)
            cut = len(sequence.ids) < length - room + sum(
                len(p[row]) for p in parts
            )
            assert bool(features.truncated[row]) == cut


@pytest.mark.parametrize(
    "count,room,stride",
    [(10, 6, 3), (0, 5, 2), (5, 5, 2), (6, 5, 9), (100, 7, 3), (1, 1, 1)],
)
def test_windows_equal_the_offline_ones(count, room, stride):
    made = graph_features.doc_windows(
        tf.constant([count]), tf.constant([room]), stride
    )
    pairs = zip(made.start.numpy(), made.length.numpy(), strict=True)
    wanted = squad_features.doc_windows(count, room, stride)
    assert [(int(a), int(b)) for a, b in pairs] == wanted
