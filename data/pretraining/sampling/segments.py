"""A stream -> segments `[reuse part | A SEP B SEP CLS]`.

Segments advance by `reuse_len`: A starts where the next segment's reuse part
starts. With `reuse_len` 0 they advance by A. So every token is in exactly one
reuse part (or A), in order. B is the text after A, or text of another document;
either way A and B fill the segment, but where the stream ends.

Places are in the stream; `make_segments` finds them for all segments at once,
`gather` turns them into arrays of positions.
"""

import dataclasses

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from common.contract import symbols as symbols_lib
from data.pretraining.options import FUNCTIONAL
from data.pretraining.sampling.token_stream import Stream

IS_NEXT_RATE = 0.5


@dataclasses.dataclass(frozen=True)
class Segments:
    """Places of n segments, int64 [n] each."""

    start: np.ndarray  # of the reuse part (of A without one)
    reuse: np.ndarray  # tokens of the reuse part
    a: np.ndarray  # place of A
    a_len: np.ndarray  # tokens of A; none means no second part at all
    b: np.ndarray
    b_len: np.ndarray
    label: np.ndarray  # 1 = B follows A in the text
    # 1 = a document starts in the part that the lane advances by
    document: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: np.ndarray | slice) -> "Segments":
        """Some segments, by their numbers or as a slice."""
        return Segments(*(v[which] for v in vars(self).values()))

    def slice(self, start: int, end: int) -> "Segments":
        return self.take(slice(start, end))


def make_segments(
    stream: Stream,
    length: int,
    seq_len: int,
    reuse_len: int,
    rng: np.random.Generator,
) -> Segments:
    """Cuts the first `length` tokens of a stream into segments.

    What lies behind them only serves as B.
    """
    window = seq_len - reuse_len - FUNCTIONAL
    if reuse_len:
        start = np.arange(0, length, reuse_len, dtype=np.int64)
        a = start + reuse_len
        reuse = np.minimum(length - start, reuse_len)
        room = np.clip(length - a, 0, window)
        a_len = _cut(stream, a, room, rng.random(len(a)))
    else:
        start, room, a_len = _walk(stream, length, window, rng)
        a, reuse = start, np.zeros_like(start)
    b, b_len, label = _choose_b(stream, length, a, a_len, room, window, rng)
    advance = reuse if reuse_len else a_len
    document = np.searchsorted(stream.documents, start + advance)
    document -= np.searchsorted(stream.documents, start)
    return Segments(
        start, reuse, a, a_len, b, b_len, label, (document > 0).astype(np.int64)
    )


def _cut(stream: Stream, a, room, chance) -> np.ndarray:
    """Length of A: to a sentence's end, else a word's, within `room`."""
    words = None
    low = np.searchsorted(stream.sentences, a, side="right")
    high = np.searchsorted(stream.sentences, a + room, side="left")
    count = high - low
    pick = np.minimum(low + (chance * count).astype(np.int64), high - 1)
    a_len = np.where(count > 0, stream.sentences[np.maximum(pick, 0)] - a, 0)
    for i in np.flatnonzero((count <= 0) & (room > 0)):
        if words is None:
            words = np.flatnonzero(stream.words)
        first = np.searchsorted(words, a[i], side="right")
        last = np.searchsorted(words, a[i] + room[i], side="left")
        if last > first:
            at = first + int(chance[i] * (last - first))
            a_len[i] = words[at] - a[i]
        else:  # one word fills the window
            a_len[i] = max(room[i] // 2, 1)
    return a_len


def _walk(stream: Stream, length: int, window: int, rng):
    """Segments that advance by A: one after the other."""
    starts, lengths, position = [], [], 0
    bound = np.append(stream.sentences, length)
    while position < length:
        room = min(window, length - position)
        a_len = _cut_one(stream, bound, position, room, rng.random())
        starts.append(position)
        lengths.append(a_len)
        position += a_len
    start = np.asarray(starts, np.int64)
    room = np.minimum(length - start, window)
    return start, room, np.asarray(lengths, np.int64)


def _cut_one(stream, bound, position, room, chance) -> int:
    if room == 1:
        return 1
    low = np.searchsorted(bound, position, side="right")
    high = np.searchsorted(bound, position + room, side="left")
    if high > low:
        return int(bound[low + int(chance * (high - low))]) - position
    position, room = np.asarray([position]), np.asarray([room])
    return int(_cut(stream, position, room, np.asarray([chance]))[0])


def _choose_b(stream: Stream, length, a, a_len, room, window, rng):
    """Places, lengths and labels of B."""
    n = len(a)
    total = len(stream)
    is_next = rng.random(n) < IS_NEXT_RATE
    chance = rng.random(n)
    b_next = room - a_len
    # The documents that A and the text after it belong to are left out.
    documents = np.append(stream.documents, total)
    after = np.minimum(a + a_len, length) - (b_next == 0)
    first = np.searchsorted(stream.documents, a, side="right") - 1
    last = np.searchsorted(stream.documents, after, side="right") - 1
    low, high = documents[np.maximum(first, 0)], documents[last + 1]
    left, right = low, total - high
    is_next = np.where(left + right <= 0, True, is_next)
    is_next = np.where(b_next <= 0, left + right <= 0, is_next)
    position = (chance * (left + right)).astype(np.int64)
    in_left = position < left
    position = np.where(in_left, position, position + high - low)
    wanted = window - a_len
    # Near a side's end B begins earlier, so that it fills the segment.
    end = np.where(in_left, low, total)
    position = np.minimum(position, end - wanted)
    position = np.maximum(position, np.where(in_left, 0, high))
    sentence = np.searchsorted(stream.sentences, position, side="right") - 1
    position = stream.sentences[np.maximum(sentence, 0)] if n else position
    b = np.where(is_next, a + a_len, position)
    b_len = np.where(is_next, b_next, np.minimum(wanted, end - position))
    b_len = np.where(a_len > 0, np.maximum(b_len, 0), 0)
    label = (is_next & (b_len > 0)).astype(np.int64)
    return b, b_len, label


def pad_to_lanes(segments: Segments, segments_per_lane: int) -> Segments:
    """Adds empty segments until the last lane is full."""
    missing = -len(segments) % segments_per_lane
    values = vars(segments).values()
    return Segments(*(np.pad(v, (0, missing)) for v in values))


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which position of a segment holds what, for n segments."""

    segment_ids: np.ndarray  # int32 [n, T]; padding has the id of CLS
    input_mask: np.ndarray  # bool [n, T]
    # int64 [n, 3], positions of SEP, SEP, CLS (without meaning where there is
    # no second part)
    functional: np.ndarray


def functional_places(
    a_len: np.ndarray, b_len: np.ndarray, reuse_len: int
) -> np.ndarray:
    """Positions of SEP, SEP and CLS, [n, 3] of the lengths' type."""
    a_end = reuse_len + a_len  # the first SEP
    b_end = a_end + 1 + b_len  # the second
    return np.stack([a_end, b_end, b_end + 1], 1)


def layout(reuse, a_len, b_len, seq_len: int, reuse_len: int) -> Layout:
    """Segment ids and masks from the lengths of the parts, each int [n]."""
    reuse, a_len, b_len = (
        np.asarray(x, np.int32) for x in (reuse, a_len, b_len)
    )
    functional = functional_places(a_len, b_len, reuse_len)
    a_end, b_end = functional[:, :1], functional[:, 1:2]
    reuse, has_second = reuse[:, None], a_len[:, None] > 0
    position = np.arange(seq_len, dtype=np.int32)[None]
    ids = np.where(
        position <= a_end,
        symbols_lib.SEGMENT_A,
        np.where(
            position <= b_end, symbols_lib.SEGMENT_B, symbols_lib.SEGMENT_CLS
        ),
    ).astype(np.int32)
    end = np.where(has_second, b_end + 2, reuse_len)
    mask = (position < reuse) | ((position >= reuse_len) & (position < end))
    return Layout(ids, mask, functional.astype(np.int64))


@dataclasses.dataclass(frozen=True)
class Places:
    """Which text token stands where in n segments; int64 [text tokens] each."""

    position: np.ndarray  # in the flattened [n, T]
    token: np.ndarray  # place in the stream


def places(segments: Segments, seq_len: int, reuse_len: int) -> Places:
    """Places of the text of n segments."""
    n = len(segments)
    row = np.arange(n, dtype=np.int64) * seq_len
    a_at = row + reuse_len
    positions, tokens = [], []
    for at, token, size in (
        (row, segments.start, segments.reuse),
        (a_at, segments.a, segments.a_len),
        (a_at + segments.a_len + 1, segments.b, segments.b_len),
    ):
        part_start = np.cumsum(size) - size
        offset = np.arange(int(size.sum()))
        positions.append(np.repeat(at - part_start, size) + offset)
        tokens.append(np.repeat(token - part_start, size) + offset)
    return Places(np.concatenate(positions), np.concatenate(tokens))


def text_rows(
    values: np.ndarray,
    fill,
    segments: Segments,
    seq_len: int,
    reuse_len: int,
) -> np.ndarray:
    """A value of each text token of n segments, where the token stands.

    [n, T] of the type of `values` [N], those of the stream's tokens; the other
    positions have `fill`.
    """
    # The reuse part and A are one run of the text and B is another: two copies
    # of whole runs, where the text has so many tokens there.
    width = seq_len - reuse_len
    second = segments.b - segments.a_len - 1
    odd = (segments.a_len == 0) | (segments.reuse < reuse_len)
    odd |= (segments.start + seq_len > len(values)) | (second < 0)
    odd |= second + width > len(values)
    if odd.all():
        return _scattered(values, fill, segments, seq_len, reuse_len)
    start, second = (np.where(odd, 0, x) for x in (segments.start, second))
    out = sliding_window_view(values, seq_len)[start]
    tail = out[:, reuse_len:]
    position = np.arange(width, dtype=np.int16)
    a_end = segments.a_len.astype(np.int16)[:, None]
    b_end = a_end + 1 + segments.b_len.astype(np.int16)[:, None]
    np.copyto(
        tail, sliding_window_view(values, width)[second], where=position > a_end
    )
    np.copyto(tail, fill, where=position >= b_end)
    tail[np.arange(len(out)), a_end[:, 0]] = fill
    rows = np.flatnonzero(odd)
    out[rows] = _scattered(
        values, fill, segments.take(rows), seq_len, reuse_len
    )
    return out


def _scattered(values, fill, segments: Segments, seq_len: int, reuse_len: int):
    """`text_rows` token by token."""
    out = np.full((len(segments), seq_len), fill, values.dtype)
    spots = places(segments, seq_len, reuse_len)
    out.reshape(-1)[spots.position] = values[spots.token]
    return out


def gather(
    stream: Stream,
    segments: Segments,
    seq_len: int,
    reuse_len: int,
    symbols: symbols_lib.SymbolIds,
) -> np.ndarray:
    """Token ids [n, T] of segments, padded with `<pad>`."""
    out = text_rows(stream.ids, symbols.pad, segments, seq_len, reuse_len)
    row = np.flatnonzero(segments.a_len > 0)
    columns = functional_places(
        segments.a_len[row], segments.b_len[row], reuse_len
    )
    out[row[:, None], columns] = symbols.sep, symbols.sep, symbols.cls
    return out


def gather_words(
    stream: Stream, segments: Segments, seq_len: int, reuse_len: int
) -> np.ndarray:
    """bool [n, T]: positions of text where a word starts."""
    return text_rows(stream.words, False, segments, seq_len, reuse_len)
