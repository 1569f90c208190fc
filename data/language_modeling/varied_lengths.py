"""Training segments of random lengths.

As in the release's PyTorch form: T with probability 0.95, else T / 2, and
normal noise of deviation 5; at least 5 tokens, at most T + 15. No boundary then
lies at the same place in two epochs, and short contexts are trained, too.
"""

import bisect

import numpy as np

from data.language_modeling.reading_schedule import Reads, Schedule

FULL_RATE = 0.95
DEVIATION, LEAST, MOST_DEVIATIONS = 5, 5, 3


def segment_lengths(
    places: int,
    seq_len: int,
    random: np.random.RandomState,
    deviation: float = DEVIATION,
) -> np.ndarray:
    """int64: lengths of the segments that `places` are read in, in turn.

    The last one is cut where the places end.
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


class Varied(Schedule):
    """Every place once per epoch: B lanes that join, lengths drawn each epoch.

    All rows of a step have the same length but where their lane ends. Memory
    is empty where an epoch begins.
    """

    def __init__(self, tokens: int, batch_size: int, seq_len: int, seed: int):
        super().__init__(tokens, batch_size, seq_len)
        bounds = self._lanes()
        self._begin, self._end = bounds[:-1], bounds[1:]
        self._seed = seed
        self._longest = int((self._end - self._begin).max())
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
        """What rows read at `steps`."""
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
