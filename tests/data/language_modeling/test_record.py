"""A record of a stream: tokens, their line ends, and where it stands."""

import numpy as np
import pytest

from data.language_modeling.record import META, make_format


@pytest.mark.parametrize("vocab_size", [300, 70_000])
def test_what_is_written_is_read(vocab_size):
    layout = make_format(24, vocab_size)
    rng = np.random.default_rng(0)
    meta = np.zeros(3, META)
    meta["block"], meta["record"] = 7, np.arange(3)
    meta["tokens"] = (24, 24, 5)
    ends = rng.random((3, 24)) < 0.3
    arrays = {
        "input_ids": rng.integers(0, vocab_size, (3, 24)),
        "meta": meta,
        "line_ends": np.packbits(ends, axis=-1, bitorder="little"),
    }
    arrays["input_ids"][0, 0] = vocab_size - 1
    found = layout.decode(layout.encode(arrays))
    for name, value in arrays.items():
        assert (found[name] == value).all(), name
    read = np.unpackbits(found["line_ends"], axis=-1, bitorder="little")
    assert (read == ends).all()


def test_small_vocabularies_have_small_ids():
    sizes = [make_format(64, v).record_size for v in (200, 65_536, 65_537)]
    assert sizes[0] <= sizes[1] < sizes[2]
    assert sizes[2] - sizes[1] >= 2 * 64
