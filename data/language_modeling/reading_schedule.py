"""Which tokens each row of a batch reads at a step.

All schedules are functions of the step alone. Letters: n tokens of the stream,
B rows, T. A *place* p stands for the prediction of token p + 1 from token p, so
there are n - 1 of them.
"""

import abc
import bisect
import dataclasses

import numpy as np

from common.errors import UserError


@dataclasses.dataclass(frozen=True)
class Reads:
    """What rows read in some steps."""

    start: np.ndarray  # int64 [steps, B], first place
    # int64 [steps, B], places; what is missing to T is padding
    length: np.ndarray
    reset: np.ndarray  # bool [steps, B], the row's memory is empty before it
    epoch: np.ndarray  # int64 [steps]
    # int64 [steps, B], of these places the first that counts; 0 = all
    first: np.ndarray | int = 0


class Schedule(abc.ABC):
    """Rows of one stream; UserError: it is too short."""

    # until every place that is read was read once by some row (about:
    # `Circular` rows have no common epoch)
    steps_per_epoch: int
    width: int  # of the arrays: the longest segment; T where all are as long

    def __init__(self, tokens: int, batch_size: int, seq_len: int):
        self.places = tokens - 1
        self.batch_size, self.seq_len = batch_size, seq_len
        self.width = seq_len
        if seq_len > self.places:
            raise UserError(
                f"a segment of {seq_len} tokens is longer than the stream of "
                f"{tokens} tokens; take a shorter --seq_len or more text"
            )
        if batch_size > self.places:
            raise UserError(
                f"a batch of {batch_size} rows needs more than {tokens} "
                "tokens; take a smaller batch or more text"
            )

    @abc.abstractmethod
    def reads(self, steps: np.ndarray) -> Reads:
        """What rows read at `steps`, int64 [k]."""

    def _lanes(self) -> np.ndarray:
        """Where B lanes of about equal length begin and end: int64 [B + 1]."""
        rows = np.arange(self.batch_size + 1, dtype=np.int64)
        return rows * self.places // self.batch_size


class Circular(Schedule):
    """Training in order: row r starts at r/B of the stream and goes round it.

    Where the stream ends the last segment of the row is filled with padding, the
    row starts at the stream's beginning and its memory is emptied. No place is
    left out, and memory is always what really stood before.
    """

    def __init__(self, tokens: int, batch_size: int, seq_len: int):
        super().__init__(tokens, batch_size, seq_len)
        self._first = self._lanes()[:-1]  # [B]
        self._steps_to_end = -(-(self.places - self._first) // seq_len)
        self._steps_round = -(-self.places // seq_len)
        self.steps_per_epoch = -(-self._steps_round // batch_size)

    def reads(self, steps: np.ndarray) -> Reads:
        step = steps[:, None]
        late = step - self._steps_to_end  # [k, B]; below 0 in the first round
        inside = late % self._steps_round
        start = np.where(
            late < 0,
            self._first + step * self.seq_len,
            inside * self.seq_len,
        )
        reset = (step == 0) | ((late >= 0) & (inside == 0))
        length = np.minimum(self.places - start, self.seq_len)
        return Reads(start, length, reset, np.zeros(len(steps), np.int64))


class Lanes(Schedule):
    """Every place once per epoch: B lanes that join.

    Lane r reads r/B .. (r + 1)/B of the stream; its first prediction is made
    from the last token of the lane before. Memory is empty where an epoch
    begins; the last segment of a lane is filled with padding.
    """

    def __init__(self, tokens: int, batch_size: int, seq_len: int):
        super().__init__(tokens, batch_size, seq_len)
        bounds = self._lanes()
        self._begin, self._end = bounds[:-1], bounds[1:]
        self._longest = int((self._end - self._begin).max())
        self.steps_per_epoch = -(-self._longest // seq_len)

    def reads(self, steps: np.ndarray) -> Reads:
        epoch, inside = np.divmod(steps, self.steps_per_epoch)
        start = self._begin + inside[:, None] * self.seq_len  # [k, B]
        length = np.clip(self._end - start, 0, self.seq_len)
        start = np.minimum(start, self._end)
        reset = np.broadcast_to(inside[:, None] == 0, start.shape)
        return Reads(start, length, reset, epoch)


class Anchor(Schedule):
    """The original's rows: n // B tokens each, the rest is dropped.

    The first token of a row is not predicted. In training the last, shorter
    segment is dropped and memory goes on from the end of a row to its
    beginning; in evaluation it is filled with padding.
    """

    def __init__(
        self, tokens: int, batch_size: int, seq_len: int, training: bool
    ):
        super().__init__(tokens, batch_size, seq_len)
        self._row = tokens // batch_size
        steps = (self._row - 1) / seq_len
        self.steps_per_epoch = int(steps) if training else int(np.ceil(steps))
        if not self.steps_per_epoch:
            raise UserError(
                f"{batch_size} rows of {self._row} tokens hold no segment of "
                f"{seq_len} tokens; take a smaller batch, a shorter --seq_len "
                "or protocol=lanes"
            )

    def reads(self, steps: np.ndarray) -> Reads:
        epoch, inside = np.divmod(steps, self.steps_per_epoch)
        offset = inside[:, None] * self.seq_len
        rows = np.arange(self.batch_size, dtype=np.int64)
        start = rows * self._row + offset
        left = np.minimum(self._row - 1 - offset, self.seq_len)
        length = np.broadcast_to(left, start.shape)
        reset = np.broadcast_to(steps[:, None] == 0, start.shape)
        return Reads(start, length, reset, epoch)


class Sliding(Schedule):
    """Windows of T places, each `stride` further; memory is never kept.

    A window predicts its last `stride` places, the first one all of its own:
    every place counts once. The last window ends where the stream does. With
    stride 1 this is how Al-Rfou et al. 2018 evaluate: T - 1 tokens of context
    for every prediction but the first ones.
    """

    def __init__(self, tokens: int, batch_size: int, seq_len: int, stride: int):
        super().__init__(tokens, batch_size, seq_len)
        self._stride = stride
        self._windows = 1 - (-(self.places - seq_len) // stride)
        self.steps_per_epoch = -(-self._windows // batch_size)

    def reads(self, steps: np.ndarray) -> Reads:
        epoch, inside = np.divmod(steps, self.steps_per_epoch)
        rows = np.arange(self.batch_size, dtype=np.int64)
        window = inside[:, None] * self.batch_size + rows  # [k, B]
        real = window < self._windows
        counted = self.seq_len + (window - 1) * self._stride
        start = np.minimum(window * self._stride, self.places - self.seq_len)
        first = np.where(window == 0, 0, counted - start)
        length = np.where(real, self.seq_len, 0)
        reset = np.ones(start.shape, bool)
        return Reads(start, length, reset, epoch, first)


FULL_RATE = 0.95
DEVIATION, LEAST, MOST_DEVIATIONS = 5, 5, 3


def segment_lengths(
    places: int,
    seq_len: int,
    random: np.random.RandomState,
    deviation: float = DEVIATION,
) -> np.ndarray:
    """int64: lengths of the segments that `places` are read in, in turn.

    As in the release's PyTorch form: T with probability 0.95, else T / 2, and
    normal noise. No boundary then lies at the same place in two epochs, and
    short contexts are trained, too. The last one is cut where the places end.
    """
    lengths, done = [], 0
    most = longest(seq_len, deviation)
    while done < places:
        full = random.random_sample() < FULL_RATE
        mean = seq_len if full else seq_len / 2
        drawn = int(random.normal(mean, deviation))
        lengths.append(min(most, max(LEAST, drawn), places - done))
        done += lengths[-1]
    return np.asarray(lengths, np.int64)


def longest(seq_len: int, deviation: float = DEVIATION) -> int:
    """The longest segment that is ever drawn."""
    return max(LEAST, int(seq_len + MOST_DEVIATIONS * deviation))


class Varied(Lanes):
    """`Lanes` whose segments have lengths that are drawn each epoch.

    All rows of a step have the same length but where their lane ends. Memory
    is empty where an epoch begins.
    """

    def __init__(self, tokens: int, batch_size: int, seq_len: int, seed: int):
        super().__init__(tokens, batch_size, seq_len)
        self._seed = seed
        self.width = longest(seq_len)
        self._last: tuple[int, np.ndarray] = (-1, np.zeros(0, np.int64))
        self._firsts = [0]  # steps that epochs begin with
        self.steps_per_epoch = len(self._bounds(0)) - 1

    def _bounds(self, epoch: int) -> np.ndarray:
        """int64 [steps + 1], where the segments of an epoch's lane lie."""
        if self._last[0] != epoch:
            random = np.random.RandomState([self._seed, epoch])
            lengths = segment_lengths(self._longest, self.seq_len, random)
            bounds = np.concatenate([[0], np.cumsum(lengths)])
            self._last = (epoch, bounds)
        return self._last[1]

    def _epoch_of(self, step: int) -> int:
        while self._firsts[-1] <= step:
            epoch = len(self._firsts) - 1
            count = len(self._bounds(epoch)) - 1
            self._firsts.append(self._firsts[-1] + count)
        return bisect.bisect_right(self._firsts, step) - 1

    def reads(self, steps: np.ndarray) -> Reads:
        epochs = np.asarray([self._epoch_of(int(s)) for s in steps], np.int64)
        inside = steps - np.asarray(self._firsts)[epochs]
        first, last = np.zeros((2, len(steps)), np.int64)
        for epoch in np.unique(epochs):
            in_epoch, bounds = epochs == epoch, self._bounds(int(epoch))
            first[in_epoch] = bounds[inside[in_epoch]]
            last[in_epoch] = bounds[inside[in_epoch] + 1]
        start = np.minimum(self._begin + first[:, None], self._end)  # [k, B]
        length = np.minimum(self._begin + last[:, None], self._end) - start
        reset = np.broadcast_to(inside[:, None] == 0, start.shape)
        return Reads(start, length, reset, epochs)
