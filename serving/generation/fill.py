"""Probabilities of hidden spans in any factorization order.

Tokens that are given are context; hidden ones are targets with an order. The
model gives p(target k | context, targets before k in the order) for every k,
and their product is the joint probability of the filling: an autoregressive
model has it, a masked one has not.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.contract.symbols import MASK
from common.errors import UserError
from data.text.masked import encode_filled, masked_ids
from serving.generation.language_model import LanguageModel, mask_logits
from serving.generation.options import ORDERS

_ROWS = 64


class Hidden(NamedTuple):
    """A text with places to fill."""

    ids: np.ndarray  # int32 [T]; `<mask>` where hidden and not known
    positions: np.ndarray  # int [P], hidden places from left to right


class Filling(NamedTuple):
    """One way to fill all places."""

    ids: np.ndarray  # int32 [P], by position from left to right
    log_probs: np.ndarray  # float32 [P], factor of each place, likewise

    @property
    def joint(self) -> float:
        """Log of the product."""
        return float(np.sum(self.log_probs, dtype=np.float64))


def parse(lm: LanguageModel, text: str, fills: list[str] | None) -> Hidden:
    """Text with `<mask>` -> ids and places.

    The pieces around a place are those of the whole text (`data.text.masked`).
    Each `<mask>` (or the tokenizer's own symbol, `[MASK]`) hides one piece,
    with the space before it, or all pieces of the whole text that hold a
    character of its filling; fills of None = one unknown piece each. Raises
    UserError: no mask, a wrong number of fillings, an empty one, or one with a
    symbol or a character that the vocabulary lacks.
    """
    own = lm.tokenizer.id_to_piece(lm.tokenizer.symbols.mask)
    parts = text.replace(own, MASK).split(MASK)
    if len(parts) < 2:
        raise UserError(
            f"--text holds no {MASK}: write it where text is hidden"
        )
    if fills is not None and len(fills) != len(parts) - 1:
        raise UserError(
            f"--fill needs {len(parts) - 1} texts divided by '|', one per "
            f"{MASK}, found {len(fills)}"
        )
    if fills is None:
        ids = np.asarray(masked_ids(lm.tokenizer, parts), np.int32)
        return Hidden(ids, np.flatnonzero(ids == lm.tokenizer.symbols.mask))
    filled = encode_filled(lm.tokenizer, parts, fills)
    for number, hidden in enumerate(filled.hidden, 1):
        _check_fill(lm, filled.ids[hidden].tolist(), number)
    return Hidden(filled.ids, np.flatnonzero(filled.hidden.any(0)))


def _check_fill(lm: LanguageModel, span: list[int], number: int) -> None:
    if not span:
        raise UserError(f"--fill: text {number} has no pieces")
    never = lm.tokenizer.symbols.never_filled()
    symbols_in_span = [lm.tokenizer.id_to_piece(i) for i in span if i in never]
    if symbols_in_span:
        raise UserError(
            f"--fill: text {number} holds {symbols_in_span[0]}, which never fills a "
            "place (probability 0): give text of the model's vocabulary"
        )


def parse_order(name: str, count: int, seed: int) -> np.ndarray:
    """Places (0 = leftmost) in the order in which they are predicted.

    `name` is one of `ORDERS`, or a permutation such as "2,0,1".
    """
    if name == "left_to_right":
        return np.arange(count)
    if name == "right_to_left":
        return np.arange(count)[::-1]
    if name == "random":
        return np.random.default_rng(seed & 0xFFFFFFFF).permutation(count)
    try:
        order = np.asarray([int(x) for x in name.split(",")])
    except ValueError:
        order = np.zeros(0, int)
    if sorted(order) != list(range(count)):
        raise UserError(
            f"--order must be one of {', '.join(ORDERS)} or a permutation of "
            f"0..{count - 1} such as 1,0; received {name!r}"
        )
    return order


class Filler:
    """Asks a language model about hidden places."""

    def __init__(self, lm: LanguageModel):
        self.lm = lm
        # As in the export; generation alone may say <eop> and <eod>.
        symbols = lm.tokenizer.symbols.never_filled()
        self._banned = np.asarray(sorted(symbols), np.int32)
        self._run = tf.function(
            self._log_probs, reduce_retracing=True, autograph=False
        )

    def factors(
        self,
        ids: np.ndarray,
        positions: np.ndarray,
        order: np.ndarray | None,
    ) -> np.ndarray:
        """float32 [B, P, V]: log p(. | context, earlier targets) per place.

        `ids` are int32 [B, T], with the fillings in the hidden places
        `positions`, int32 [P]. `positions[order[0]]` is predicted first; an
        order of None = no place sees another one.
        """
        ranks = np.full(ids.shape, -1, np.int32)
        ranks[:, positions] = 0
        if order is not None:
            ranks[:, positions[order]] = np.arange(len(order))
        return self._ask(ids, ranks, positions)

    def _ask(self, ids, ranks, positions) -> np.ndarray:
        return self._run(
            tf.constant(ids, tf.int32),
            tf.constant(ranks, tf.int32),
            tf.constant(positions, tf.int32),
        ).numpy()

    def _log_probs(self, ids, ranks, positions):
        batch = tf.shape(ids)[0]
        output = self.lm.model(
            ids,
            ranks=ranks,
            is_target=ranks >= 0,
            target_positions=tf.tile(positions[tf.newaxis], [batch, 1]),
            training=False,
        )
        logits = self.lm.model.lm_logits(output.query_output)  # [B, P, V]
        return tf.nn.log_softmax(mask_logits(logits, self._banned))

    def score(self, hidden: Hidden, order: np.ndarray | None) -> Filling:
        """The factors of the filling that `hidden.ids` holds.

        Without an order each factor is p(piece | context): what a masked
        language model multiplies, as if the places were independent.
        """
        factors = self.factors(hidden.ids[np.newaxis], hidden.positions, order)
        ids = hidden.ids[hidden.positions]
        return Filling(ids, factors[0, np.arange(len(ids)), ids])

    def attribution(self, hidden: Hidden, order: np.ndarray) -> np.ndarray:
        """How much each given token says about the filling, in nats.

        float32 [T], 0 in hidden places: the joint log-probability less that of
        a text in which the token is seen by nobody, its place staying as it is
        (leave one out).
        """
        count, length = len(order), len(hidden.ids)
        known = np.setdiff1d(np.arange(length), hidden.positions)
        attributed = np.zeros(length, np.float32)
        whole = self.score(hidden, order).joint
        for first in range(0, len(known), _ROWS):
            part = known[first : first + _ROWS]
            ranks = np.full((len(part), length), -1, np.int32)
            ranks[:, hidden.positions[order]] = np.arange(count)
            # Behind all targets in the order: neither they nor context see it.
            ranks[np.arange(len(part)), part] = count
            ids = np.tile(hidden.ids, (len(part), 1))
            factors = self._ask(ids, ranks, hidden.positions)
            filled = hidden.ids[hidden.positions]
            without = factors[:, np.arange(count), filled].sum(1)
            attributed[part] = whole - without
        return attributed

    def search(
        self, hidden: Hidden, order: np.ndarray, beam_size: int
    ) -> list[Filling]:
        """The best fillings found by beam search along `order`, best first."""
        count = len(order)
        ids = hidden.ids[np.newaxis]
        scores = np.zeros((1, count), np.float32)  # [beams, P]
        for slot in order:
            factors = self.factors(ids, hidden.positions, order)[:, slot]
            total = scores.sum(1)[:, np.newaxis] + factors  # [beams, V]
            width = min(beam_size, int(np.isfinite(total).sum()))
            best = np.argsort(-total, axis=None, kind="stable")[:width]
            beam, token = np.unravel_index(best, total.shape)
            ids, scores = ids[beam].copy(), scores[beam].copy()
            ids[:, hidden.positions[slot]] = token
            scores[:, slot] = factors[beam, token]
        return [
            Filling(row[hidden.positions], log_probs)
            for row, log_probs in zip(ids, scores, strict=True)
        ]
