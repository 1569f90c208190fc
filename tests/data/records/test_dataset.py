"""Batches from any step of a reader of chunks, with or without an end."""

import numpy as np
import pytest

from data.records.dataset import make_dataset

FIELDS = {"step": ([], "int64"), "rows": ([2, 3], "int32")}


class Reader:
    """Chunks of four steps; every batch holds its step."""

    def __init__(self, num_chunks):
        self.num_chunks = num_chunks

    def chunk_of(self, step):
        return divmod(step, 4)

    def chunk(self, number):
        steps = np.arange(4 * number, 4 * number + 4)
        rows = np.zeros([4, 2, 3], np.int32) + steps[:, None, None]
        return {"rows": rows.astype(np.int32), "step": steps, "more": steps}


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("start", [0, 3, 4, 9])
def test_a_step_is_the_same_wherever_reading_starts(start, prefetch):
    dataset = make_dataset(Reader(3), FIELDS, start, prefetch)
    found = list(dataset.as_numpy_iterator())
    assert [batch["step"] for batch in found] == list(range(start, 12))
    assert set(found[0]) == set(FIELDS)
    assert (found[0]["rows"] == start).all()
    assert dataset.element_spec["rows"].shape == [2, 3]


def test_a_reader_without_an_end_goes_on():
    dataset = make_dataset(Reader(None), FIELDS, 4 * 1000 + 2, 0)
    steps = [b["step"] for b in dataset.take(3).as_numpy_iterator()]
    assert steps == [4002, 4003, 4004]
