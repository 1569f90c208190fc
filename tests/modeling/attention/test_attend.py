"""What a stream hides by default: nothing."""

from modeling.attention.attend import ALL, NO_QUERIES, Stream, Streams


def test_nothing_is_hidden_unless_it_is_said():
    assert ALL == Stream(None, None, None, None)
    assert NO_QUERIES == Streams(ALL, None, "gather")
