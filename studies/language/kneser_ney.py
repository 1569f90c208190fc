"""N-grams with interpolated modified Kneser-Ney smoothing, of token ids.

Chen and Goodman, "An empirical study of smoothing techniques for language
modeling" (1998), section 3: three discounts per order from counts of counts;
the highest order counts occurrences, the lower ones distinct left neighbours,
and the lowest is interpolated with the uniform distribution. A stream begins
with n - 1 start symbols, which are never predicted.

Letters: V vocabulary, G distinct grams of an order, C contexts, X tokens.
"""

from typing import NamedTuple

import numpy as np

from common.errors import UserError

# KenLM's `--discount_fallback`, where counts of counts give none: a few symbols
# of which every one is frequent.
FALLBACK = (0.5, 1.0, 1.5)


class Level(NamedTuple):
    """The grams of one order.

    Attributes:
      keys: int64 [G], rising: context * (V + 1) + last token; a context is the
        number of a gram of the order below.
      shares: float64 [G], what is left of a gram's count over its context's.
      left_over: float64 [C], weight of the order below.
      discounts: of counts 1, 2, and 3 or more.
    """

    keys: np.ndarray
    shares: np.ndarray
    left_over: np.ndarray
    discounts: tuple[float, float, float]


class KneserNey:
    """A model of order n, estimated from one stream.

    Args:
      tokens: int [X], ids below `vocab_size`.
      vocab_size: V; unseen ids have a probability, too.
      order: n.

    Raises:
      UserError: `order` < 1, or nothing to count.
    """

    def __init__(self, tokens: np.ndarray, vocab_size: int, order: int):
        if order < 1 or len(tokens) < 1:
            raise UserError(
                "n-grams need order >= 1 and at least one token, received "
                f"order {order} and {len(tokens)} tokens"
            )
        self.vocab_size, self.order = vocab_size, order
        padded = self._pad(tokens)
        grams = [np.zeros(len(padded), np.int64)]  # of order 0: one, empty
        keys = []
        for k in range(order):
            known, codes = self._codes(grams[k], padded, k)
            level_keys, numbers = np.unique(codes[known], return_inverse=True)
            keys.append(level_keys)
            grams.append(np.full(len(padded), -1))
            grams[-1][known] = numbers
        real = slice(order - 1, None)
        counts = [np.bincount(grams[order][real], minlength=len(keys[-1]))]
        for k in range(order - 1, 0, -1):
            # Distinct left neighbours: one per gram of the order above.
            _, first = np.unique(grams[k + 1][real], return_index=True)
            counts.insert(
                0,
                np.bincount(grams[k][real][first], minlength=len(keys[k - 1])),
            )
        self.levels = [
            self._level(keys[k], counts[k], len(keys[k - 1]) if k else 1)
            for k in range(order)
        ]

    def _pad(self, tokens: np.ndarray) -> np.ndarray:
        start = np.full(self.order - 1, self.vocab_size, np.int64)
        return np.concatenate([start, np.asarray(tokens, np.int64)])

    def _codes(self, gram: np.ndarray, padded: np.ndarray, k: int):
        """Keys of the grams of order k + 1 that end at each token.

        Args:
          gram: int64 [X], of order k, by last token; -1 = unknown or too short.
          padded: int64 [X], tokens.
          k: length of the context, which ends one token earlier.

        Returns:
          (bool [X], the context is known; int64 [X], keys, no matter where not)
        """
        context = gram
        if k:
            context = np.insert(gram[:-1], 0, -1)
        return context >= 0, context * (self.vocab_size + 1) + padded

    def _level(self, keys, counts, contexts: int) -> Level:
        context = keys // (self.vocab_size + 1)
        discounts = modified_discounts(counts)
        taken = np.concatenate([[0.0], discounts])[np.minimum(counts, 3)]
        total = np.bincount(context, counts, contexts)
        kept = np.bincount(context, taken, contexts)
        seen = total > 0
        safe = np.where(seen, total, 1.0)
        return Level(
            keys,
            (counts - taken) / safe[context],
            np.where(seen, kept / safe, 1.0),
            discounts,
        )

    def log_probs(self, tokens: np.ndarray) -> np.ndarray:
        """Log-probability of every token from those before it, float64 [X]."""
        padded = self._pad(tokens)
        size = len(padded)
        gram = np.zeros(size, np.int64)  # the empty one, of order 0
        p = np.full(size, 1.0 / self.vocab_size)
        for k, level in enumerate(self.levels):
            known, code = self._codes(gram, padded, k)
            context = code // (self.vocab_size + 1)
            index = np.searchsorted(level.keys, code)
            index = np.minimum(index, len(level.keys) - 1)
            known_gram = known & (level.keys[index] == code)
            share = np.where(known_gram, level.shares[index], 0.0)
            left = level.left_over[np.where(known, context, 0)]
            p = np.where(known, left * p + share, p)
            gram = np.where(known_gram, index, -1)
        return np.log(p[self.order - 1 :])

    @property
    def grams(self) -> int:
        """Grams of all orders that have a count of their own."""
        return sum(int((level.shares > 0).sum()) for level in self.levels)


def modified_discounts(counts: np.ndarray) -> tuple[float, float, float]:
    """Discounts of grams that were counted once, twice, and more often.

    Args:
      counts: int [G].

    Returns:
      Equation 26 of the paper; `FALLBACK` where it gives none.
    """
    n = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].astype(float)
    if not n.all():
        return FALLBACK
    y = n[0] / (n[0] + 2 * n[1])
    discounts = tuple(i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3))
    if all(0 <= d <= i for i, d in enumerate(discounts, 1)):
        return discounts
    return FALLBACK
