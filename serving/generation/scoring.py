"""Log-probability of a text under factorization orders.

A text of more than T tokens is read in segments; each leaves its content
stream as memory for the next one. Within a segment the order decides who sees
whom; the memory is seen by all.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.errors import UserError
from modeling import PretrainingModel

MOST_ORDERED = 7  # 5,040 orders
_ROWS = 256


class Score(NamedTuple):
    """One text under one order."""

    log_probs: np.ndarray  # float32 [n] per token, in text order
    # the order of each segment, as positions in the segment
    orders: list[np.ndarray]

    @property
    def total(self) -> float:
        """Log-probability of the text."""
        return float(np.sum(self.log_probs, dtype=np.float64))


class Scorer:
    """Scores token ids; keeps M of memory between segments, 0 = none.

    The model has all weights and is built without memory of its own.
    """

    def __init__(
        self, model: PretrainingModel, segment_len: int, memory_len: int
    ):
        self.model = model
        self.segment_len = segment_len
        self.memory_len = memory_len
        self._run = tf.function(
            self._segment, reduce_retracing=True, autograph=False
        )

    def score(
        self, ids: np.ndarray, order: str, seed: int, context: int = 0
    ) -> Score:
        """Scores one text, int32 [n].

        The order is "left_to_right", "right_to_left" or "random". So many first
        tokens as `context` are given, not scored (they must lie in the first
        segment).
        """
        rng = np.random.default_rng(seed & 0xFFFFFFFF)
        config = self.model.config
        memory = tf.zeros([config.n_layer, 1, 0, config.d_model])
        # A text may have no pieces: a zero-width space has none.
        log_probs, orders = [np.zeros(0, np.float32)], []
        for begin in range(0, len(ids), self.segment_len):
            part = ids[begin : begin + self.segment_len]
            context_length = min(max(context - begin, 0), len(part))
            places = np.arange(context_length, len(part))
            if order == "right_to_left":
                places = places[::-1]
            elif order == "random":
                places = rng.permutation(places)
            ranks = np.full(len(part), -1, np.int32)
            ranks[places] = np.arange(len(places))
            log_prob, memory = self._run(
                tf.constant(part[np.newaxis], tf.int32),
                tf.constant(ranks[np.newaxis]),
                memory,
            )
            log_probs.append(log_prob.numpy()[0][context_length:])
            orders.append(places)
        return Score(np.concatenate(log_probs), orders)

    def all_orders(self, ids: np.ndarray, context: int = 0) -> np.ndarray:
        """A short text under every order of its scored tokens.

        The mean over the orders is the expectation of XLNet's objective
        (paper, equation 3), without sampling. float32 [k!, k], k = n - context
        tokens, in text order; orders as `itertools.permutations` gives them,
        from left to right first. Raises UserError: more than 7 tokens to score,
        or more than a segment has.
        """
        places = np.arange(min(context, len(ids)), len(ids))
        if len(places) > MOST_ORDERED or len(ids) > self.segment_len:
            raise UserError(
                f"--order=all takes at most {MOST_ORDERED} scored tokens in "
                f"one segment of {self.segment_len}, found {len(places)} of "
                f"{len(ids)}: shorten the text or give --context_chars"
            )
        orders = list(itertools.permutations(places))
        config, by_batch = self.model.config, []
        for begin in range(0, len(orders), _ROWS):
            part = np.array(orders[begin : begin + _ROWS], np.int32)
            ranks = np.full((len(part), len(ids)), -1, np.int32)
            steps = np.broadcast_to(np.arange(len(places)), part.shape)
            np.put_along_axis(ranks, part, steps, 1)
            rows = np.tile(ids, (len(part), 1))
            memory = tf.zeros([config.n_layer, len(part), 0, config.d_model])
            log_probs, _ = self._run(
                tf.constant(rows, tf.int32), tf.constant(ranks), memory
            )
            by_batch.append(log_probs.numpy()[:, len(ids) - len(places) :])
        return np.concatenate(by_batch)

    def _segment(self, ids, ranks, memory):
        rows, length = tf.unstack(tf.shape(ids))
        past = tuple(tf.unstack(memory))
        output = self.model(
            ids,
            ranks=ranks,
            is_target=ranks >= 0,
            target_positions=tf.tile(tf.range(length)[tf.newaxis], [rows, 1]),
            memory=past,
            training=False,
            output_hidden_states=True,
        )
        logits = self.model.lm_logits(output.query_output)  # [B, T, V]
        log_probs = tf.gather(
            tf.nn.log_softmax(logits), ids, batch_dims=2
        )  # [B, T]
        if not self.memory_len:
            return log_probs, memory
        states = tf.cast(tf.stack(output.hidden_states[:-1]), memory.dtype)
        memory = tf.concat([memory, states], 2)[:, :, -self.memory_len :]
        return log_probs, memory
