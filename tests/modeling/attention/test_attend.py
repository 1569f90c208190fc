"""The one way from queries to vectors hands everything to the keys."""

import dataclasses

import numpy as np

from modeling.attention import attend as attend_lib
from modeling.attention.attend import ALL, NO_QUERIES, Stream, Streams, attend


@dataclasses.dataclass
class Recorder:
    """Keys that keep what they are asked."""

    def attend(self, queries, stream, seed=None, rate=0.0):
        self.asked = (queries, stream, seed, rate)
        return "vectors"


def test_keys_know_how_queries_meet_them():
    keys, stream = Recorder(), Stream(mask=np.zeros([1, 2, 3]))
    assert attend("q", keys, stream, (3, 4), 0.25) == "vectors"
    assert keys.asked == ("q", stream, (3, 4), 0.25)
    attend("q", keys)
    assert keys.asked == ("q", attend_lib.ALL, None, 0.0)


def test_nothing_is_hidden_unless_it_is_said():
    assert ALL == Stream(None, None, None, None)
    assert NO_QUERIES == Streams(ALL, None, "gather")
