"""The layout of a pretraining record."""

from data.pretraining.record import make_format


def test_smaller_than_the_originals_record():
    assert make_format(512, 85, 32000).record_size < 2600
